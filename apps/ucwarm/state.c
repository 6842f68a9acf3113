/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and replacing the state file; see state.h. */
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEADING "ucwarm state 1"

static int fail(const struct state *state, const char *why, char error[STATE_ERROR_MAX])
{
    snprintf(error, STATE_ERROR_MAX, "%s: %s", state->path, why);
    return -1;
}

static bool read_line(FILE *file, char line[STATE_LINE_MAX])
{
    if (!fgets(line, STATE_LINE_MAX, file))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* "at 123" or "done 123". */
static bool read_source(struct state *state, unsigned i, const char *line)
{
    char word[5];

    if (sscanf(line, "%4s %" SCNu64, word, &state->passed[i]) != 2)
        return false;
    state->done[i] = strcmp(word, "done") == 0;
    return state->done[i] || strcmp(word, "at") == 0;
}

static int read_file(struct state *state, FILE *file, char error[STATE_ERROR_MAX])
{
    char line[STATE_LINE_MAX];

    if (!read_line(file, line) || strcmp(line, HEADING) != 0)
        return fail(state, "this is not a state file of ucwarm", error);
    if (!read_line(file, line) || strcmp(line, state->copy) != 0)
        return fail(state, "this is the state of another copy; give the same servers, or remove it",
                    error);
    for (unsigned i = 0; i < state->sources; i++)
        if (!read_line(file, line) || !read_source(state, i, line))
            return fail(state, "the state file is damaged; remove it", error);
    return 0;
}

int state_load(struct state *state, char error[STATE_ERROR_MAX])
{
    FILE *file;
    int rc;

    if (!state->path)
        return 0;
    file = fopen(state->path, "re");
    if (!file)
        return errno == ENOENT ? 0 : fail(state, strerror(errno), error);
    rc = read_file(state, file, error);
    fclose(file);
    return rc;
}

static void write_file(const struct state *state, FILE *file)
{
    fprintf(file, HEADING "\n%s\n", state->copy);
    for (unsigned i = 0; i < state->sources; i++)
        fprintf(file, "%s %" PRIu64 "\n", state->done[i] ? "done" : "at", state->passed[i]);
}

int state_save(const struct state *state, char error[STATE_ERROR_MAX])
{
    char fresh[PATH_MAX];
    FILE *file;

    if (!state->path)
        return 0;
    if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", state->path) >= sizeof(fresh))
        return fail(state, "the name is too long", error);
    file = fopen(fresh, "we");
    if (!file)
        return fail(state, strerror(errno), error);
    write_file(state, file);
    if (fclose(file) == 0 && rename(fresh, state->path) == 0)
        return 0;
    fail(state, strerror(errno), error);
    (void)unlink(fresh);
    return -1;
}

void state_remove(const struct state *state)
{
    if (state->path)
        (void)unlink(state->path);
}
