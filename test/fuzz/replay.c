/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target on stored inputs: each argument is a file, or a folder of files. Stands in
 * for libFuzzer where the corpus is to be replayed as a test with any compiler. Prints the name
 * of an input before it is run, so that a crash shows which one it was, if REPLAY_VERBOSE is set.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX (4l * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned replayed;

static void fail(const char *path)
{
    fprintf(stderr, "replay: cannot read %s\n", path);
    exit(1);
}

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    long len;

    if (getenv("REPLAY_VERBOSE") != NULL)
        fprintf(stderr, "%s\n", path);
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    len = ftell(file);
    if (len < 0 || len > INPUT_BYTES_MAX || fseek(file, 0, SEEK_SET) != 0)
        fail(path);
    data = malloc(len > 0 ? (size_t)len : 1); /* exact, so that a sanitizer sees an over-read */
    if (data == NULL || fread(data, 1, (size_t)len, file) != (size_t)len)
        fail(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)len);
    free(data);
    replayed++;
}

static void replay_folder(const char *path, DIR *folder)
{
    char file[4096];
    struct dirent *entry;

    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if ((size_t)snprintf(file, sizeof file, "%s/%s", path, entry->d_name) >= sizeof file)
            fail(path);
        replay_file(file);
    }
}

int main(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder != NULL) {
            replay_folder(argv[i], folder);
            closedir(folder);
        } else {
            replay_file(argv[i]);
        }
    }
    printf("replayed %u inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
