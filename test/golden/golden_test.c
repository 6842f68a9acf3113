/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays golden files through the parsers: requests as bytes, and what each must come to.
 *
 *   golden_test FILE...
 *
 * Each request is also cut short at every byte, which must ask for more. The program needs nothing
 * but the C library, so it also runs in emulators of other machines (README.md).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "items.h"
#include "mcproto/mcproto.h"
#include "show.h"

#define LINE_BYTES_MAX 8192

/* Where we are, for messages. */
struct place {
    const char *file;
    int line;
    int failures;
};

/* The requests that the last `>` lines made up. */
struct input {
    struct golden_bytes all;
    u_u32 at;   /* of the next request */
    int closed; /* a request has ended the connection */
};

static void fail(struct place *place, const char *what, const char *detail)
{
    printf("%s:%d: %s%s\n", place->file, place->line, what, detail);
    place->failures++;
}

static enum mc_outcome parse(enum mc_protocol protocol, const u_u8 *buf, u_u32 len,
                             struct mc_request *req)
{
    return protocol == MC_PROTOCOL_BINARY ? mc_parse_binary(buf, len, req)
                                          : mc_parse(buf, len, req);
}

/* The same bytes, less of them: more is needed, or else the outcome is what it was. */
static void check_cuts(struct place *place, enum mc_protocol protocol, const u_u8 *buf,
                       const struct mc_request *whole, const char *expected)
{
    char shown[LINE_BYTES_MAX];
    u_u32 cut;

    for (cut = 0; cut < whole->line_bytes; cut++) {
        struct mc_request req;
        enum mc_outcome outcome = parse(protocol, buf, cut, &req);
        const char *text = protocol == MC_PROTOCOL_BINARY
                               ? show_binary(outcome, &req, shown, sizeof shown)
                               : show(outcome, &req, shown, sizeof shown);
        if (outcome != MC_MORE && (protocol == MC_PROTOCOL_TEXT || strcmp(text, expected) != 0))
            fail(place, "cut short it comes to: ", text);
    }
}

/* Takes the next request, which must come to what a `=` line says. */
static void check_outcome(struct place *place, struct input *input, const char *expected)
{
    const u_u8 *buf = input->all.bytes + input->at;
    u_u32 len = input->all.len - input->at;
    enum mc_protocol protocol = mc_protocol_detect(input->all.bytes[0]);
    struct mc_request req;
    char shown[LINE_BYTES_MAX];
    enum mc_outcome outcome = parse(protocol, buf, len, &req);
    const char *text = protocol == MC_PROTOCOL_BINARY
                           ? show_binary(outcome, &req, shown, sizeof shown)
                           : show(outcome, &req, shown, sizeof shown);
    u_u32 value = 0;

    if (strcmp(text, expected) != 0) {
        fail(place, "comes to: ", text);
        return;
    }
    check_cuts(place, protocol, buf, &req, expected);
    if (outcome == MC_MALFORMED)
        value = req.discard_bytes;
    else if (protocol == MC_PROTOCOL_BINARY)
        value = req.value_bytes;
    else if (outcome == MC_REQUEST && mc_command_has_value(req.command))
        value = req.value_bytes + 2;
    input->at += req.line_bytes + value;
    input->closed |= req.close;
    if (outcome == MC_MORE)
        input->at = input->all.len;
    if (input->at > input->all.len)
        fail(place, "the data block is longer than the input", "");
}

static void end_input(struct place *place, struct input *input)
{
    if (input->at != input->all.len && !input->closed)
        fail(place, "there are requests left that nothing is said of", "");
    input->all.len = 0;
    input->at = 0;
    input->closed = 0;
}

static void check_line(struct place *place, struct input *input, char before, const char *line)
{
    if (line[0] == '>') {
        if (before != '>')
            end_input(place, input);
        if (!golden_items_read(line + 1, &input->all))
            fail(place, "not to be understood: ", line);
    } else if (line[0] == '=' && line[1] == ' ') {
        check_outcome(place, input, line + 2);
    } else if (line[0] != '<' && line[0] != '#' && line[0] != '\0') {
        fail(place, "not to be understood: ", line);
    }
}

static void check_file(struct place *place, struct input *input)
{
    FILE *file = fopen(place->file, "rb");
    char line[LINE_BYTES_MAX];
    char before = '\0';

    if (file == NULL) {
        fail(place, "can't be opened", "");
        return;
    }
    for (place->line = 1; fgets(line, sizeof line, file) != NULL; place->line++) {
        line[strcspn(line, "\n")] = '\0';
        check_line(place, input, before, line);
        before = line[0];
    }
    end_input(place, input);
    if (place->line == 1)
        fail(place, "is empty", "");
    fclose(file);
}

int main(int argc, char **argv)
{
    static struct input input;
    struct place place = {NULL, 0, 0};
    int i;

    for (i = 1; i < argc; i++) {
        place.file = argv[i];
        check_file(&place, &input);
    }
    return argc > 1 && place.failures == 0 ? 0 : 1;
}
