/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What -h, -i and -V print.
 */
#include <string.h>

#include "options_spec.h"

#define HELP_COLUMN 30

void options_print_version(FILE *to)
{
    /* The first line is what clients' test suites look for. */
    fprintf(to, "memcached %s\n", UCACHED_COMPAT_VERSION);
    fprintf(to, "ucached %s, compatible with the memcached above\n", UCACHED_VERSION);
}

void options_print_license(FILE *to)
{
    options_print_version(to);
    fputs("\n"
          "BSD 3-Clause License\n"
          "\n"
          "Copyright (c) 2026, the ucached authors\n"
          "\n"
          "Redistribution and use in source and binary forms, with or without\n"
          "modification, are permitted provided that the following conditions are met:\n"
          "\n"
          "1. Redistributions of source code must retain the above copyright notice, this\n"
          "   list of conditions and the following disclaimer.\n"
          "\n"
          "2. Redistributions in binary form must reproduce the above copyright notice,\n"
          "   this list of conditions and the following disclaimer in the documentation\n"
          "   and/or other materials provided with the distribution.\n"
          "\n"
          "3. Neither the name of the copyright holder nor the names of its\n"
          "   contributors may be used to endorse or promote products derived from\n"
          "   this software without specific prior written permission.\n"
          "\n"
          "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS \"AS IS\"\n"
          "AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE\n"
          "IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE\n"
          "DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE\n"
          "FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL\n"
          "DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR\n"
          "SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER\n"
          "CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,\n"
          "OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE\n"
          "OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.\n",
          to);
}

static void print_spec(FILE *to, const struct option_spec *spec)
{
    const char *line = spec->help;
    size_t len = strcspn(line, "\n");
    int column;

    if (spec->letter && spec->name)
        column = fprintf(to, "  -%c, --%s", spec->letter, spec->name);
    else if (spec->letter)
        column = fprintf(to, "  -%c", spec->letter);
    else
        column = fprintf(to, "      --%s", spec->name);
    if (spec->arg)
        column += fprintf(to, spec->name ? "=%s" : " %s", spec->arg);
    fprintf(to, "%*s%.*s\n", column < HELP_COLUMN ? HELP_COLUMN - column : 1, "", (int)len, line);
    for (line += len; *line == '\n'; line += len) {
        line++;
        len = strcspn(line, "\n");
        fprintf(to, "%*s%.*s\n", HELP_COLUMN, "", (int)len, line);
    }
}

void options_print_help(FILE *to)
{
    struct option_spec spec;
    size_t i;

    options_print_version(to);
    fprintf(to, "\nusage: ucached [option]...\n\n");
    for (i = 0; options_spec(i, &spec); i++) {
        if (spec.help)
            print_spec(to, &spec);
    }
    options_extended_help(to);
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
