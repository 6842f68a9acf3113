/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of -h, -i and -V. */
#include <license_text.h> /* generated from LICENSE */

#include "base/base.h"
#include "options_table.h"

void options_print_version(FILE *to)
{
    /* Test suites of clients expect memcached's version in the first line. */
    fprintf(to, "memcached %s\n", UCACHED_COMPAT_VERSION);
    fprintf(to, "ucached %s, compatible with the memcached above\n", UCACHED_VERSION);
}

void options_print_license(FILE *to)
{
    options_print_version(to);
    fputc('\n', to);
    fwrite(license_text, 1, sizeof(license_text), to);
}

void options_print_help(FILE *to)
{
    struct options unused;
    const struct cmdline_table tables[] = {options_memcached(&unused), options_own(&unused),
                                           link_table(&unused.link)};
    size_t i;

    options_print_version(to);
    fprintf(to, "\nusage: ucached [option]...\n\n");
    for (i = 0; i < U_ARRAY_LEN(tables); i++)
        cmdline_print_options(to, tables[i].options, tables[i].count);
    options_print_extended(to);
    fprintf(to, "\nexamples:\n"
                "  ucached -m 1024 -t 2 -l 127.0.0.1\n"
                "      1 GiB over kernel sockets on two threads, for this machine only\n"
                "  ucached --io=tap\n"
                "      the own TCP/IP stack; then, from this machine:\n"
                "      printf 'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nquit\\r\\n' | "
                "nc 10.100.0.20 11211\n"
                "  ucached --ip=192.168.7.2/24 --host-ip=192.168.7.1/24 --trace=/tmp/ucached.pcap\n"
                "      the same with other addresses, recording all frames\n");
}
