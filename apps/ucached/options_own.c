/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options that memcached does not have: where bytes come from, which all programs here ask in the
 * same words.
 */
#include "options_spec.h"

bool options_own(size_t index, struct option_spec *spec)
{
    struct link_option_table table = link_option_table();
    const struct link_option *link = &table.options[index];

    if (index >= table.count)
        return false;
    *spec = (struct option_spec){.name = link->name, .arg = link->arg, .help = link->help};
    return true;
}
