/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses values of the command line; see value.h. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/value.h"

int value_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;
    const char *at;

    for (at = text; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');

        if (sum > (UINT64_MAX - digit) / 10)
            return -1;
        sum = sum * 10 + digit;
    }
    if (at == text || *at != '\0' || sum < min || sum > max)
        return -1;
    *value = sum;
    return 0;
}

int value_size(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char digits[24];
    size_t len = strlen(text);
    uint64_t unit = 1;
    uint64_t sum;

    if (len > 0 && strchr("kK", text[len - 1]))
        unit = 1024;
    else if (len > 0 && strchr("mM", text[len - 1]))
        unit = 1024 * 1024;
    if (unit > 1)
        len--;
    if (len >= sizeof(digits))
        return -1;
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (value_number(digits, 0, max / unit, &sum) < 0 || sum * unit < min)
        return -1;
    *value = sum * unit;
    return 0;
}

int value_octal(const char *text, unsigned max, unsigned *value)
{
    unsigned sum = 0;
    const char *at;

    for (at = text; *at >= '0' && *at <= '7'; at++) {
        sum = sum * 8 + (unsigned)(*at - '0');
        if (sum > max)
            return -1;
    }
    if (at == text || *at != '\0')
        return -1;
    *value = sum;
    return 0;
}

int value_ratio(const char *text, double *value)
{
    char *end;
    double number;

    if (strspn(text, "0123456789.") != strlen(text))
        return -1;
    number = strtod(text, &end);
    if (end == text || *end != '\0')
        return -1;
    *value = number;
    return 0;
}

int value_addr(const char *text, struct us_addr *addr)
{
    memset(addr, 0, sizeof(*addr));
    addr->family = strchr(text, ':') ? US_IP6 : US_IP4;
    return inet_pton(addr->family == US_IP6 ? AF_INET6 : AF_INET, text, addr->bytes) == 1 ? 0 : -1;
}

int value_network(const char *text, struct net_stack_addr *addr)
{
    char host[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    uint64_t prefix_len;

    if (!slash || (size_t)(slash - text) >= sizeof(host))
        return -1;
    memcpy(host, text, (size_t)(slash - text));
    host[slash - text] = '\0';
    if (value_addr(host, &addr->addr) < 0)
        return -1;
    if (value_number(slash + 1, 1, addr->addr.family == US_IP6 ? 128 : 32, &prefix_len) < 0)
        return -1;
    addr->prefix_len = (unsigned)prefix_len;
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int value_mac(const char *text, uint8_t mac[6])
{
    static const uint8_t none[6];
    unsigned i;

    if (strlen(text) != 17)
        return -1;
    for (i = 0; i < 6; i++) {
        int high = hex_digit(text[3 * i]);
        int low = hex_digit(text[3 * i + 1]);

        if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
            return -1;
        mac[i] = (uint8_t)(high << 4 | low);
    }
    return (mac[0] & 1) || memcmp(mac, none, 6) == 0 ? -1 : 0;
}

int value_endpoint(const char *text, char host[VALUE_HOST_MAX], char port[VALUE_PORT_MAX])
{
    const char *start = text[0] == '[' ? text + 1 : text;
    const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
    const char *colon;
    uint64_t number;
    size_t len;

    if (text[0] == '[' && !end)
        return -1;
    if (text[0] != '[' && end && strchr(end + 1, ':'))
        end = NULL; /* IPv6 address without brackets */
    len = end ? (size_t)(end - start) : strlen(start);
    colon = end && *end == ']' ? end + 1 : end;
    if (len == 0 || len >= VALUE_HOST_MAX || (colon && *colon != ':' && *colon != '\0'))
        return -1;
    memcpy(host, start, len);
    host[len] = '\0';
    if (!colon || *colon != ':')
        return 0;
    if (strlen(colon + 1) >= VALUE_PORT_MAX || value_number(colon + 1, 1, UINT16_MAX, &number) < 0)
        return -1;
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

const char *value_threading_choice(unsigned index, const char **help)
{
    static const char *const helps[NET_THREADINGS] = {
        [NET_THREADING_UNIFIED] = "one thread (default)",
        [NET_THREADING_SPLIT] = ("a thread for the stack and one for the sessions, each on\n"
                                 "its own core"),
        [NET_THREADING_MERGE] = "two threads on one core",
    };

    if (index >= NET_THREADINGS)
        return NULL;
    *help = helps[index];
    return net_threading_name((enum net_threading)index);
}
