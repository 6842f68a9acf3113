/* SPDX-License-Identifier: BSD-3-Clause */
/* kvbench trace: writes a workload to a trace file for simulators. */
#include "kvbench/bench.h"
#include "load/trace.h"

#define PROGRESS_EVERY (1u << 20)

bool trace_run(const struct options *options, FILE *out)
{
    char error[LOAD_ERROR_MAX];
    struct load_workload workload = options->workload;
    struct load_trace_writer *writer =
        load_trace_create(options->out_path, load_trace_format_of(options->out_path), error);
    struct load_request request;

    if (!writer)
        return bench_fail("%s", error);
    for (uint64_t i = 0; i < options->requests; i++) {
        load_workload_next(&workload, &request);
        if (!load_trace_put(writer, &request))
            break;
        if (i % PROGRESS_EVERY == 0)
            report_progress("%.0f %% of the requests",
                            100.0 * (double)i / (double)options->requests);
    }
    report_progress(NULL);
    if (!load_trace_finish(writer, error))
        return bench_fail("%s", error);
    fprintf(out, "%s: %llu requests of %s\n", options->out_path,
            (unsigned long long)options->requests, options->workload_text);
    return true;
}
