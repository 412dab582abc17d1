/* mutator.c -- libFuzzer's mutations and those of a grammar (GRAMMAR, the path of a .gram file).
 *
 * Where bytes alone rarely get past the first bracket, a whole text is made, a piece of one is put
 * in or in the place of another, or a piece is repeated until the text is long: what takes the
 * square of its length shows then. With OPMETER_FUZZ_MAKE=N in the environment all texts are made
 * from the grammar and the program ends, well, once they have N events in all. */
#include "grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t len, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len, size_t max, unsigned seed);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { PIECE_MAX = 4096, COPIES_MAX = 64 };

static struct grammar *grammar;
static uint64_t wanted, texts;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *make = getenv("OPMETER_FUZZ_MAKE");

    (void)argc;
    (void)argv;
    grammar = grammar_load(GRAMMAR);
    if (make)
        wanted = strtoull(make, NULL, 10);
    return 0;
}

static size_t make_text(uint8_t *data, size_t max, uint32_t seed)
{
    if (wanted && grammar_events(grammar) >= wanted) {
        /* The last text has been tried by now. */
        printf("made %llu events in %llu texts\n", (unsigned long long)grammar_events(grammar),
               (unsigned long long)texts);
        fflush(stdout);
        _exit(0); /* exit() would be a finding */
    }
    texts++;
    return grammar_make(grammar, seed, data, max);
}

/* Where to change something: at a place where tokens meet, mostly. */
static size_t place(const uint8_t *data, size_t len, uint32_t *seed)
{
    size_t at = len ? *seed % (len + 1) : 0;

    *seed = *seed * 1664525u + 1013904223u;
    if (*seed >> 30)
        while (at < len && !strchr("{}[],:;\"'\n =<>()", data[at]))
            at++;
    return at;
}

/* Put a piece in at a place; `over` bytes give way to it. */
static size_t put_in(uint8_t *data, size_t len, size_t max, size_t at, size_t over,
                     const uint8_t *piece, size_t n)
{
    over = over < len - at ? over : len - at;
    if (n > max - (len - over))
        n = max - (len - over);
    memmove(data + at + n, data + at + over, len - at - over);
    memcpy(data + at, piece, n);
    return len - over + n;
}

static size_t repeat(uint8_t *data, size_t len, size_t max, uint32_t seed)
{
    static uint8_t piece[PIECE_MAX];
    size_t from = place(data, len, &seed), n, copies = 1 + (seed >> 8) % COPIES_MAX;

    n = 1 + (seed >> 16) % 64;
    if (from + n > len)
        return len;
    memcpy(piece, data + from, n);
    while (copies-- && len < max)
        len = put_in(data, len, max, from, 0, piece, n);
    return len;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len, size_t max, unsigned seed)
{
    static uint8_t piece[PIECE_MAX];
    uint32_t how = seed % 16, rest = seed / 16;
    size_t n, at;

    if (wanted || how == 0)
        return make_text(data, max, seed);
    if (how < 9)
        return LLVMFuzzerMutate(data, len, max);
    if (how == 9)
        return repeat(data, len, max, rest);
    n = grammar_make_any(grammar, rest, piece, how < 14 ? 64 : sizeof(piece));
    at = place(data, len, &rest);
    return put_in(data, len, max, at, how & 1 ? rest % 32 : 0, piece, n);
}
