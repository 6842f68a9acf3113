/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of session tickets; see tickets.h. */
#include "tls/tickets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 16
#define IV_BYTES 16

struct ticket_key {
    uint8_t name[NAME_BYTES]; /* in the clear in each ticket */
    uint8_t cipher[32];       /* AES-256-CBC */
    uint8_t mac[32];          /* HMAC-SHA-256 */
};

struct tickets {
    pthread_mutex_t lock;
    struct ticket_key keys[2]; /* the one in use, and the one before it */
};

static int place = -1; /* of the keys in an SSL_CTX */

static void tickets_free(void *parent, void *data, CRYPTO_EX_DATA *all, int index, long number,
                         void *arg)
{
    struct tickets *tickets = data;

    if (!tickets)
        return;
    pthread_mutex_destroy(&tickets->lock);
    OPENSSL_cleanse(tickets, sizeof(*tickets));
    free(tickets);
}

static void find_place(void)
{
    place = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, tickets_free);
}

static bool make_key(struct ticket_key *key)
{
    return RAND_bytes(key->name, sizeof(key->name)) == 1 &&
           RAND_priv_bytes(key->cipher, sizeof(key->cipher)) == 1 &&
           RAND_priv_bytes(key->mac, sizeof(key->mac)) == 1;
}

/* Copies the key of a new ticket, or that of a given one. Returns its age, or -1: it has none. */
static int key_get(struct tickets *tickets, const uint8_t *name, struct ticket_key *key)
{
    int age = 0;

    pthread_mutex_lock(&tickets->lock);
    if (name) {
        while (age < 2 && CRYPTO_memcmp(tickets->keys[age].name, name, NAME_BYTES) != 0)
            age++;
    }
    if (age < 2)
        *key = tickets->keys[age];
    pthread_mutex_unlock(&tickets->lock);
    return age < 2 ? age : -1;
}

/* Sets both contexts up. */
static bool use_key(struct ticket_key *key, uint8_t *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                    int encrypts)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_CipherInit_ex2(cipher, EVP_aes_256_cbc(), key->cipher, iv, encrypts, NULL) == 1 &&
           EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(): 1 done, 2 and the ticket is to be renewed, 0 unknown. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts)
{
    struct tickets *tickets = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), place);
    struct ticket_key key;
    int age = key_get(tickets, encrypts ? NULL : name, &key);
    bool done;

    if (age < 0)
        return 0;
    if (encrypts) {
        memcpy(name, key.name, NAME_BYTES);
        if (RAND_bytes(iv, IV_BYTES) != 1)
            age = -1;
    }
    done = age >= 0 && use_key(&key, iv, cipher, mac, encrypts);
    OPENSSL_cleanse(&key, sizeof(key));
    if (!done)
        return -1;
    return age == 0 ? 1 : 2;
}

bool tls_tickets_begin(SSL_CTX *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tickets *tickets = calloc(1, sizeof(*tickets));

    (void)pthread_once(&once, find_place);
    if (!tickets || pthread_mutex_init(&tickets->lock, NULL) != 0) {
        free(tickets);
        return false;
    }
    if (!make_key(&tickets->keys[0]) || !make_key(&tickets->keys[1]) || place < 0 ||
        SSL_CTX_set_ex_data(ctx, place, tickets) != 1) {
        tickets_free(NULL, tickets, NULL, 0, 0, NULL);
        return false;
    }
    return SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1;
}

bool tls_tickets_rotate(SSL_CTX *ctx)
{
    struct tickets *tickets = SSL_CTX_get_ex_data(ctx, place);
    struct ticket_key key;
    bool done = make_key(&key);

    if (done) {
        pthread_mutex_lock(&tickets->lock);
        tickets->keys[1] = tickets->keys[0];
        tickets->keys[0] = key;
        pthread_mutex_unlock(&tickets->lock);
    }
    OPENSSL_cleanse(&key, sizeof(key));
    return done;
}
