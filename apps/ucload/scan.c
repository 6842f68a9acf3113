/* SPDX-License-Identifier: BSD-3-Clause */
/* The throughput/latency curve; see scan.h. */
#include "scan.h"

#include <math.h>

#include "base/base.h"

static const char *const names[SCAN_LINES] = {"p50", "p99", "p99.9"};
static const double percents[SCAN_LINES] = {50, 99, 99.9};
static const char *const colours[SCAN_LINES] = {"#1f77b4", "#d95f02", "#7a3ea1"};

void scan_add(struct scan *scan, const struct result *result)
{
    struct scan_point *point = &scan->points[scan->count];

    if (result->tally.requests == 0)
        return;
    scan->count++;
    U_ASSERT(scan->count <= SCAN_POINTS);
    point->offered = result->offered;
    point->reached = result->seconds > 0 ? (double)result->tally.requests / result->seconds : 0;
    for (unsigned line = 0; line < SCAN_LINES; line++)
        point->latency_ns[line] = load_histogram_percentile(&result->latency, percents[line]);
}

void scan_print(FILE *to, const struct scan *scan)
{
    fprintf(to, "%-12s %12s %12s %12s %12s %12s\n", "scan", "offered/s", "reached/s", "p50 us",
            "p99 us", "p99.9 us");
    for (unsigned i = 0; i < scan->count; i++) {
        const struct scan_point *point = &scan->points[i];

        fprintf(to, "%-12s %12.0f %12.0f", "", point->offered, point->reached);
        for (unsigned line = 0; line < SCAN_LINES; line++)
            fprintf(to, " %12.1f", (double)point->latency_ns[line] / 1e3);
        fprintf(to, "\n");
    }
}

void scan_json(FILE *to, const struct scan *scan)
{
    fprintf(to, "[");
    for (unsigned i = 0; i < scan->count; i++) {
        const struct scan_point *point = &scan->points[i];

        fprintf(to, "%s\n    {\"offered_per_second\": %.15g, \"requests_per_second\": %.15g",
                i > 0 ? "," : "", point->offered, point->reached);
        for (unsigned line = 0; line < SCAN_LINES; line++)
            fprintf(to, ", \"%s_us\": %.3f", names[line], (double)point->latency_ns[line] / 1e3);
        fprintf(to, "}");
    }
    fprintf(to, "]");
}

/* ---- the drawing ------------------------------------------------------------------------- */

#define WIDTH 760
#define HEIGHT 440
#define LEFT 80
#define RIGHT 30
#define TOP 50
#define BOTTOM 60

/* Throughput is linear, latency logarithmic. */
struct axes {
    double rate_max;
    double decade_min, decade_max; /* log10 of nanoseconds, whole numbers */
};

static double x_of(const struct axes *axes, double rate)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * rate / axes->rate_max;
}

static double y_of(const struct axes *axes, double decade)
{
    return HEIGHT - BOTTOM -
           (HEIGHT - TOP - BOTTOM) * (decade - axes->decade_min) /
               (axes->decade_max - axes->decade_min);
}

static double decade_of(uint64_t ns)
{
    return log10((double)u_max64(ns, 1));
}

/* 1, 2 or 5 times a power of ten, so that five to ten of them make `max`. */
static double tick_of(double max)
{
    double power = pow(10, floor(log10(max / 5)));
    double parts = max / 5 / power;

    return power * (parts >= 5 ? 5 : parts >= 2 ? 2 : 1);
}

static struct axes axes_of(const struct scan *scan)
{
    struct axes axes = {.rate_max = 1, .decade_min = 12, .decade_max = 0};

    for (unsigned i = 0; i < scan->count; i++) {
        const struct scan_point *point = &scan->points[i];

        axes.rate_max = fmax(axes.rate_max, point->reached);
        for (unsigned line = 0; line < SCAN_LINES; line++) {
            axes.decade_min = fmin(axes.decade_min, floor(decade_of(point->latency_ns[line])));
            axes.decade_max = fmax(axes.decade_max, ceil(decade_of(point->latency_ns[line])));
        }
    }
    if (axes.decade_max <= axes.decade_min) {
        axes.decade_min = 3;
        axes.decade_max = 6;
    }
    axes.rate_max *= 1.05;
    return axes;
}

static void draw_rates(FILE *to, const struct axes *axes)
{
    double step = tick_of(axes->rate_max);

    for (double rate = 0; rate <= axes->rate_max; rate += step) {
        fprintf(to,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g%s</text>\n",
                x_of(axes, rate), TOP, x_of(axes, rate), HEIGHT - BOTTOM, x_of(axes, rate),
                HEIGHT - BOTTOM + 18,
                step >= 1e5   ? rate / 1e6
                : step >= 100 ? rate / 1e3
                              : rate,
                rate > 0 ? (step >= 1e5   ? " M"
                            : step >= 100 ? " k"
                                          : "")
                         : "");
    }
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">requests per second</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 42);
}

static void draw_latencies(FILE *to, const struct axes *axes)
{
    static const char *const texts[] = {"1 ns",   "10 ns", "100 ns", "1 us",   "10 us",
                                        "100 us", "1 ms",  "10 ms",  "100 ms", "1 s",
                                        "10 s",   "100 s", "1000 s"};

    for (double decade = axes->decade_min; decade <= axes->decade_max; decade++) {
        fprintf(to,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT, y_of(axes, decade), WIDTH - RIGHT, y_of(axes, decade), LEFT - 8,
                y_of(axes, decade) + 4,
                decade >= 0 && decade < (double)U_ARRAY_LEN(texts) ? texts[(int)decade] : "");
    }
}

static void draw_line(FILE *to, const struct axes *axes, const struct scan *scan,
                      enum scan_line line)
{
    fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
            colours[line]);
    for (unsigned i = 0; i < scan->count; i++)
        fprintf(to, "%.1f,%.1f ", x_of(axes, scan->points[i].reached),
                y_of(axes, decade_of(scan->points[i].latency_ns[line])));
    fprintf(to, "\"/>\n");
    for (unsigned i = 0; i < scan->count; i++)
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                x_of(axes, scan->points[i].reached),
                y_of(axes, decade_of(scan->points[i].latency_ns[line])), colours[line]);
    fprintf(to, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-weight=\"bold\">%s</text>\n",
            LEFT + 12 + 70 * (int)line, TOP + 18, colours[line], names[line]);
}

static void draw_title(FILE *to, const char *title)
{
    fprintf(to, "<text x=\"%d\" y=\"28\" font-size=\"15\" font-weight=\"bold\">", LEFT);
    for (; *title; title++) {
        if (*title == '<' || *title == '&')
            fputs(*title == '<' ? "&lt;" : "&amp;", to);
        else
            fputc(*title, to);
    }
    fprintf(to, "</text>\n");
}

int scan_svg(FILE *to, const struct scan *scan, const char *title)
{
    struct axes axes = axes_of(scan);
    int rc;

    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_title(to, title);
    draw_rates(to, &axes);
    draw_latencies(to, &axes);
    for (unsigned line = 0; line < SCAN_LINES; line++)
        draw_line(to, &axes, scan, (enum scan_line)line);
    fprintf(to, "</svg>\n");
    rc = ferror(to) ? -1 : 0;
    return fclose(to) == 0 ? rc : -1;
}
