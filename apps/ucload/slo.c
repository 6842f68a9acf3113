/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency goals; see slo.h. */
#include "slo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative precision of the result, unless the number of tries is used up. */
#define PRECISION 0.03

/* Requests per second below which the rate is not the reason for a missed goal. */
#define RATE_MIN 10.0

static int read_limit(const char *text, uint64_t *limit_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double number;
    char *end;
    unsigned i;

    if (*text < '0' || *text > '9')
        return -1;
    number = strtod(text, &end);
    for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        number *= units[i].ns;
        if (!(number >= 1 && number <= 1e12))
            return -1;
        *limit_ns = (uint64_t)number;
        return 0;
    }
    return -1;
}

static int read_what(const char *text, size_t len, double *percent)
{
    char *end;

    if (len == 4 && memcmp(text, "mean", 4) == 0) {
        *percent = 0;
        return 0;
    }
    if (len == 3 && memcmp(text, "max", 3) == 0) {
        *percent = 100;
        return 0;
    }
    if (len < 2 || text[0] != 'p' || text[1] < '0' || text[1] > '9')
        return -1;
    *percent = strtod(text + 1, &end);
    return end == text + len && *percent > 0 && *percent <= 100 ? 0 : -1;
}

int slo_parse(struct slo *slo, const char *text)
{
    const char *less = strchr(text, '<');

    if (!less || strlen(text) >= sizeof(slo->text))
        return -1;
    snprintf(slo->text, sizeof(slo->text), "%s", text);
    if (read_what(text, (size_t)(less - text), &slo->percent) < 0)
        return -1;
    return read_limit(less + 1, &slo->limit_ns);
}

uint64_t slo_value(const struct slo *slo, const struct load_histogram *latency)
{
    if (slo->percent > 0)
        return load_histogram_percentile(latency, slo->percent);
    return (uint64_t)load_histogram_mean(latency);
}

void slo_start(struct slo_search *search, double first_rate)
{
    memset(search, 0, sizeof(*search));
    search->start = first_rate > RATE_MIN ? first_rate : RATE_MIN;
}

double slo_next(const struct slo_search *search)
{
    if (search->tries == SLO_TRIES_MAX)
        return 0;
    if (search->missed > 0 && search->kept > 0)
        return search->missed > search->kept * (1 + PRECISION) ? (search->missed + search->kept) / 2
                                                               : 0;
    if (search->kept > 0)
        return search->kept * 2;
    if (search->missed > RATE_MIN)
        return search->missed / 2 > RATE_MIN ? search->missed / 2 : RATE_MIN;
    if (search->missed > 0)
        return 0;
    return search->start;
}

void slo_learn(struct slo_search *search, double rate, bool kept)
{
    search->tries++;
    if (kept && rate > search->kept)
        search->kept = rate;
    if (!kept && (search->missed <= 0 || rate < search->missed))
        search->missed = rate;
}
