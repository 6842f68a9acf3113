/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of steps of handshakes, its threads, and the results for the workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>

#include "../tls/tls_client.h"
#include "net/tls_steps.h"

#define STEPS_MAX 80

static struct cert server_cert;
static struct tls_context *server;

/* What a worker has of its steps. */
struct worker {
    struct net_tls_steps *steps;
    struct net_tls_results results;
    sem_t woken;
    struct net_tls_step *all[STEPS_MAX]; /* in the order of their submission */
    unsigned count;
};

static void wake(void *ctx)
{
    sem_post(&((struct worker *)ctx)->woken);
}

static bool emit_nowhere(void *ctx, const uint8_t *data, uint32_t len)
{
    fail_msg("a step emits to the connection");
    return false;
}

static void worker_init(struct worker *worker, struct net_tls_steps *steps)
{
    memset(worker, 0, sizeof(*worker));
    worker->steps = steps;
    sem_init(&worker->woken, 0, 0);
    net_tls_results_init(&worker->results, wake, worker);
}

static void submit(struct worker *worker, const void *input, uint32_t len)
{
    struct tls_session *session = tls_session_open(server, NULL, TLS_PEER_NONE, emit_nowhere, NULL);

    worker->all[worker->count] = net_tls_step_new(session, input, len, false);
    net_tls_steps_submit(worker->steps, &worker->results, worker->all[worker->count]);
    worker->count++;
}

/* The beginning of a record: a step that is short. */
static void submit_short(struct worker *worker)
{
    submit(worker, "\x16\x03\x01", 3);
}

static void step_end(struct net_tls_step *step)
{
    tls_session_close(step->session);
    net_tls_step_free(step);
}

/* Sleeps as a worker does until there is a result. */
static struct net_tls_step *next_result(struct worker *worker)
{
    struct net_tls_step *step;

    while ((step = net_tls_results_take(&worker->results)) == NULL)
        sem_wait(&worker->woken);
    return step;
}

static void *thread_main(void *steps)
{
    net_tls_steps_run(steps);
    return NULL;
}

static void end(struct net_tls_steps *steps, pthread_t *threads, unsigned count)
{
    net_tls_steps_stop(steps);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    net_tls_steps_close(steps);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* One thread: in order, but the newest first while more than so many wait. */
static void test_order(void **state)
{
    static const unsigned counts[] = {1, NET_TLS_WAITING_IN_ORDER, STEPS_MAX};
    struct worker worker;
    pthread_t thread;
    unsigned row, i, newest;

    for (row = 0; row < 3; row++) {
        worker_init(&worker, net_tls_steps_open());
        while (worker.count < counts[row])
            submit_short(&worker);
        newest =
            counts[row] > NET_TLS_WAITING_IN_ORDER ? counts[row] - NET_TLS_WAITING_IN_ORDER : 0;
        pthread_create(&thread, NULL, thread_main, worker.steps);
        for (i = 0; i < worker.count; i++) {
            struct net_tls_step *step = next_result(&worker);

            assert_ptr_equal(step, worker.all[i < newest ? worker.count - 1 - i : i - newest]);
            assert_int_equal(step->newest, i < newest);
            assert_int_equal(step->result, TLS_MORE);
            assert_int_equal(step->used, 3);
            step_end(step);
        }
        net_tls_results_close(worker.steps, &worker.results);
        end(worker.steps, &thread, 1);
    }
}

/* A step that waits can be taken back; one that has a result cannot. */
static void test_cancel(void **state)
{
    struct worker worker;
    pthread_t thread;

    worker_init(&worker, net_tls_steps_open());
    submit_short(&worker);
    submit_short(&worker);
    submit_short(&worker);
    assert_true(net_tls_steps_cancel(worker.steps, worker.all[1]));
    step_end(worker.all[1]);
    pthread_create(&thread, NULL, thread_main, worker.steps);
    assert_ptr_equal(next_result(&worker), worker.all[0]);
    assert_ptr_equal(next_result(&worker), worker.all[2]);
    assert_false(net_tls_steps_cancel(worker.steps, worker.all[2]));
    assert_false(net_tls_results_wait(&worker.results));
    step_end(worker.all[0]);
    step_end(worker.all[2]);
    net_tls_results_close(worker.steps, &worker.results);
    end(worker.steps, &thread, 1);
}

/* The bound: those that have waited longest are refused, as results of their own workers. */
static void test_bound(void **state)
{
    struct net_tls_step **flood = calloc(NET_TLS_STEPS_MAX, sizeof(flood[0]));
    struct net_tls_steps *steps = net_tls_steps_open();
    struct worker first, second;
    struct tls_session *session;
    struct net_tls_step *step;
    unsigned i;

    worker_init(&first, steps);
    worker_init(&second, steps);
    submit_short(&first);
    submit_short(&first);
    session = tls_session_open(server, NULL, TLS_PEER_NONE, emit_nowhere, NULL);
    for (i = 0; i < NET_TLS_STEPS_MAX; i++) {
        flood[i] = net_tls_step_new(session, (const uint8_t *)"x", 1, false);
        net_tls_steps_submit(steps, &second.results, flood[i]);
    }
    for (i = 0; i < 2; i++) {
        step = next_result(&first);
        assert_ptr_equal(step, first.all[i]);
        assert_true(step->refused);
        assert_int_equal(step->used, 0);
        step_end(step);
    }
    assert_false(net_tls_results_wait(&second.results));
    submit_short(&first);
    step = next_result(&second);
    assert_ptr_equal(step, flood[0]);
    net_tls_step_free(step);
    for (i = 1; i < NET_TLS_STEPS_MAX; i++) {
        assert_true(net_tls_steps_cancel(steps, flood[i]));
        net_tls_step_free(flood[i]);
    }
    assert_true(net_tls_steps_cancel(steps, first.all[2]));
    step_end(first.all[2]);
    tls_session_close(session);
    free(flood);
    net_tls_results_close(steps, &first.results);
    net_tls_results_close(steps, &second.results);
    end(steps, NULL, 0);
}

/* Long input is left for the next step. */
static void test_input_is_bounded(void **state)
{
    uint8_t *input = calloc(1, 2 * NET_TLS_STEP_INPUT_MAX);
    struct worker worker;
    pthread_t thread;
    struct net_tls_step *step;

    worker_init(&worker, net_tls_steps_open());
    memcpy(input, "\x16\x03\x01\x40\x00\x01\x00\xff\xff", 9); /* a ClientHello that is longer */
    submit(&worker, input, 2 * NET_TLS_STEP_INPUT_MAX);
    pthread_create(&thread, NULL, thread_main, worker.steps);
    step = next_result(&worker);
    assert_true(step->used <= NET_TLS_STEP_INPUT_MAX);
    step_end(step);
    net_tls_results_close(worker.steps, &worker.results);
    end(worker.steps, &thread, 1);
    free(input);
}

/* With certificates that are longer than what a step may emit, the handshake fails. */
static void test_output_is_bounded(void **state)
{
    struct tls_context *before = server;
    struct tls_server_config config = {.key_format = TLS_KEY_PEM, .min_version = TLS_VERSION_1_2};
    char path[CERT_PATH_MAX], error[TLS_ERROR_MAX];
    FILE *file = cert_file(path);
    struct tls_client client;
    struct worker worker;
    struct net_tls_step *step;
    uint8_t hello[4096];
    pthread_t thread;
    unsigned i;
    int len;

    for (i = 0; i < NET_TLS_STEP_BYTES_MAX / 200; i++) /* each has about 300 bytes */
        assert_int_equal(PEM_write_X509(file, server_cert.x509), 1);
    fclose(file);
    config.chain_cert = path;
    config.key = server_cert.key_path;
    server = tls_server_open(&config, error);
    assert_non_null(server);
    ssl_client_open(&client, TLS1_3_VERSION, NULL, NULL);
    ssl_client_step(&client);
    len = BIO_read(client.out, hello, sizeof(hello));
    worker_init(&worker, net_tls_steps_open());
    submit(&worker, hello, (uint32_t)len);
    pthread_create(&thread, NULL, thread_main, worker.steps);
    step = next_result(&worker);
    assert_int_equal(step->result, TLS_FAILED);
    assert_true(step->emitted.len > 0 && step->emitted.len <= NET_TLS_STEP_BYTES_MAX);
    step_end(step);
    net_tls_results_close(worker.steps, &worker.results);
    end(worker.steps, &thread, 1);
    ssl_client_close(&client);
    tls_context_close(server);
    server = before;
    unlink(path);
}

/* What fills the bound is emitted; a byte more is not. The step's input makes an alert. */
static void test_output_of_the_bound(void **state)
{
    enum { ALERT_BYTES = 7 };
    struct worker worker;
    pthread_t thread;
    unsigned i;

    worker_init(&worker, net_tls_steps_open());
    for (i = 0; i < 2; i++) {
        struct tls_session *session =
            tls_session_open(server, NULL, TLS_PEER_NONE, emit_nowhere, NULL);
        struct net_tls_step *step =
            net_tls_step_new(session, (const uint8_t *)"\x16\x03\x01\0\5hello", 10, false);

        step->emitted.at = calloc(1, NET_TLS_STEP_BYTES_MAX);
        step->emitted.capacity = NET_TLS_STEP_BYTES_MAX;
        step->emitted.len = NET_TLS_STEP_BYTES_MAX - ALERT_BYTES + i;
        net_tls_steps_submit(worker.steps, &worker.results, step);
    }
    pthread_create(&thread, NULL, thread_main, worker.steps);
    for (i = 0; i < 2; i++) {
        struct net_tls_step *step = next_result(&worker);

        assert_int_equal(step->result, TLS_FAILED);
        assert_int_equal(step->emitted.len,
                         NET_TLS_STEP_BYTES_MAX - (i == 0 ? 0 : ALERT_BYTES - 1));
        step_end(step);
    }
    net_tls_results_close(worker.steps, &worker.results);
    end(worker.steps, &thread, 1);
}

/* ---- names of certificates ---------------------------------------------------------------- */

#define NAMES_MAX 100

/* A tls_name: collects the names, with a space behind each. */
static void take_name(void *ctx, const char *name, uint32_t len)
{
    char *names = ctx;
    size_t before = strlen(names);

    snprintf(names + before, NAMES_MAX - before, "%.*s ", (int)len, name);
}

/* Makes a handshake in steps, which have some names already. Returns the last one. */
static struct net_tls_step *shake(struct worker *worker, struct tls_context *context,
                                  struct tls_client *client, uint32_t names_bytes)
{
    struct tls_session *session =
        tls_session_open(context, NULL, TLS_PEER_REQUIRED, emit_nowhere, NULL);
    struct net_tls_step *step;
    uint8_t bytes[16384];
    unsigned i;
    int len;

    for (i = 0; i < 10; i++) {
        ssl_client_step(client);
        len = BIO_read(client->out, bytes, sizeof(bytes));
        assert_true(len > 0);
        step = net_tls_step_new(session, bytes, (uint32_t)len, true);
        step->names.at = calloc(1, NET_TLS_STEP_BYTES_MAX);
        step->names.capacity = NET_TLS_STEP_BYTES_MAX;
        step->names.len = names_bytes;
        net_tls_steps_submit(worker->steps, &worker->results, step);
        assert_ptr_equal(next_result(worker), step);
        assert_int_equal(step->result, TLS_MORE);
        BIO_write(client->in, step->emitted.at, (int)step->emitted.len);
        if (tls_session_is_established(session))
            return step;
        net_tls_step_free(step);
    }
    fail_msg("the handshake does not end");
    return NULL;
}

/* Gives the certificate one more name, which ends early for who takes it for a string. */
static void add_cut_name(struct cert *cert)
{
    static const unsigned char name[] = "root\0.test";

    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(cert->x509), "CN",
                                                MBSTRING_ASC, name, sizeof(name) - 1, -1, 0),
                     1);
    assert_int_not_equal(X509_sign(cert->x509, server_cert.key, EVP_sha256()), 0);
}

/*
 * The names of a client come with the last step; one for which there is no room is left out, and so
 * is one with a NUL.
 */
static void test_names(void **state)
{
    const struct tls_server_config config = {.chain_cert = server_cert.cert_path,
                                             .key = server_cert.key_path,
                                             .key_format = TLS_KEY_PEM,
                                             .ca_cert = server_cert.cert_path,
                                             .min_version = TLS_VERSION_1_2};
    char error[TLS_ERROR_MAX], names[NAMES_MAX] = "";
    struct tls_context *context = tls_server_open(&config, error);
    const uint32_t full = NET_TLS_STEP_BYTES_MAX - 7; /* a length, and half of "client" */
    struct net_tls_step *step;
    struct tls_client client;
    struct worker worker;
    struct cert cert;
    pthread_t thread;
    unsigned i;

    assert_non_null(context);
    cert_make(&cert, "client", &server_cert);
    add_cut_name(&cert);
    worker_init(&worker, net_tls_steps_open());
    pthread_create(&thread, NULL, thread_main, worker.steps);
    for (i = 0; i < 2; i++) {
        ssl_client_open(&client, TLS1_3_VERSION, &cert, NULL);
        step = shake(&worker, context, &client, i == 0 ? 0 : full);
        if (i == 0)
            net_tls_step_give_names(step, take_name, names);
        else
            assert_int_equal(step->names.len, full);
        step_end(step);
        ssl_client_close(&client);
    }
    assert_string_equal(names, "client client.test ");
    net_tls_results_close(worker.steps, &worker.results);
    end(worker.steps, &thread, 1);
    cert_free(&cert);
    tls_context_close(context);
}

/* ---- workers and threads at the same time -------------------------------------------------- */

#define ROUNDS 60
#define ROUNDS_UNDER_VALGRIND 12
#define AT_ONCE 8

/*
 * Submits first messages of clients, takes results, gives up some steps, and frees its results
 * while threads may be at their steps.
 */
static void *work(void *arg)
{
    struct net_tls_steps *steps = arg;
    struct tls_client client;
    uint8_t hello[4096];
    struct worker worker;
    const unsigned rounds = getenv("UCACHED_VALGRIND") ? ROUNDS_UNDER_VALGRIND : ROUNDS;
    unsigned round, i, left;
    int len;

    ssl_client_open(&client, TLS1_3_VERSION, NULL, NULL);
    ssl_client_step(&client);
    len = BIO_read(client.out, hello, sizeof(hello));
    ssl_client_close(&client);
    for (round = 0; round < rounds; round++) {
        worker_init(&worker, steps);
        for (i = 0; i < AT_ONCE; i++)
            submit(&worker, hello, (uint32_t)len);
        for (left = AT_ONCE, i = 0; i < AT_ONCE; i += 3) {
            if (!net_tls_steps_cancel(steps, worker.all[i]))
                continue;
            step_end(worker.all[i]);
            left--;
        }
        for (; left > round % 3; left--) {
            struct net_tls_step *step = next_result(&worker);

            if (step->result != TLS_MORE || step->used != (uint32_t)len || step->emitted.len == 0)
                abort();
            step_end(step);
        }
        for (; left > 0; left--) {
            struct net_tls_step *step;

            net_tls_results_close(steps, &worker.results);
            while ((step = net_tls_results_take(&worker.results)) == NULL)
                sched_yield();
            step_end(step);
        }
        net_tls_results_close(steps, &worker.results);
        sem_destroy(&worker.woken);
    }
    return NULL;
}

static void test_workers_and_threads(void **state)
{
    struct net_tls_steps *steps = net_tls_steps_open();
    pthread_t threads[2], workers[2];
    unsigned i;

    for (i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, thread_main, steps);
        pthread_create(&workers[i], NULL, work, steps);
    }
    for (i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
    end(steps, threads, 2);
}

static int make_server(void **state)
{
    char error[TLS_ERROR_MAX];
    struct tls_server_config config = {.key_format = TLS_KEY_PEM, .min_version = TLS_VERSION_1_2};

    cert_make(&server_cert, "server", NULL);
    config.chain_cert = server_cert.cert_path;
    config.key = server_cert.key_path;
    server = tls_server_open(&config, error);
    return server ? 0 : -1;
}

static int free_server(void **state)
{
    tls_context_close(server);
    cert_free(&server_cert);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_input_is_bounded),
        cmocka_unit_test(test_output_is_bounded),
        cmocka_unit_test(test_output_of_the_bound),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_workers_and_threads),
    };

    return cmocka_run_group_tests(tests, make_server, free_server);
}
