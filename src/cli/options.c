/* options.c -- see options.h. */
#include "cli/options.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 26 /* where the descriptions start */
#define NAME_ROOM 64

static const struct option help_option = {
    .kind = OPTION_BOOL,
    .letter = 'h',
    .name = "help",
    .help = "show this help",
};

void option_list_release(struct option_list *l)
{
    mem_free(l->item);
    *l = (struct option_list){ 0 };
}

#define NEAREST_MAX 40 /* bytes of a name that may be a slip */

static const struct option *find_letter(const struct option *opts, char letter)
{
    for (; opts->kind != OPTION_END; opts++)
        if (opts->letter == letter && letter)
            return opts;
    return letter == help_option.letter ? &help_option : NULL;
}

/* A name as it was typed, looked up among all names and their --no- forms. */
struct lookup {
    const char *typed;
    size_t len;
    const struct option *found;
    bool negated;
    bool exact;
    const char *rival_no; /* "no-" or "": how the second match is spelt */
    const struct option *rival;
};

static void lookup_try(struct lookup *l, const struct option *o, bool negated)
{
    const char *typed = l->typed;
    size_t len = l->len;

    if (l->exact)
        return;
    if (negated) {
        /* "--n" or "--no" alone means no option: too many share that beginning. */
        if (len <= 3 || strncmp(typed, "no-", 3) != 0)
            return;
        typed += 3;
        len -= 3;
    }
    if (strncmp(o->name, typed, len) != 0)
        return;
    l->exact = o->name[len] == '\0';
    if (l->found && !l->exact) {
        l->rival = o;
        l->rival_no = negated ? "no-" : "";
        return;
    }
    l->found = o;
    l->negated = negated;
    if (l->exact)
        l->rival = NULL;
}

static int find_name(const struct option *opts, struct lookup *l, opm_error *err)
{
    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        if (!o->name || o->kind == OPTION_ALIAS)
            continue;
        lookup_try(l, o, false);
        if (o->kind == OPTION_BOOL)
            lookup_try(l, o, true);
    }
    lookup_try(l, &help_option, false);
    if (l->rival)
        return opm__fail(err, OPM_EINVAL, "option '--%.*s' could be '--%s%s' or '--%s%s'",
                         (int)l->len, l->typed, l->negated ? "no-" : "", l->found->name,
                         l->rival_no, l->rival->name);
    return 0;
}

static int unknown_name(const struct option *opts, const char *typed, size_t len, opm_error *err)
{
    char word[NEAREST_MAX + 2] = "";
    struct nearest n = { word, NULL, 0 };
    const char *no = "";

    if (len > 3 && strncmp(typed, "no-", 3) == 0)
        no = "no-";
    if (len <= NEAREST_MAX)
        memcpy(word, typed + strlen(no), len - strlen(no));
    for (const struct option *o = opts; o->kind != OPTION_END; o++)
        if (o->name && o->kind != OPTION_ALIAS && (!*no || o->kind == OPTION_BOOL))
            nearest_try(&n, o->name);
    if (!*no)
        nearest_try(&n, help_option.name);
    if (!n.best)
        return opm__fail(err, OPM_EINVAL, "unknown option '--%.*s'", (int)len, typed);
    return opm__fail(err, OPM_EINVAL, "unknown option '--%.*s'; did you mean '--%s%s'?", (int)len,
                     typed, no, n.best);
}

/* "--name", or "-x" where there is no name, for messages. */
static const char *option_label(const struct option *o, char room[64])
{
    if (o->name)
        snprintf(room, 64, "--%s", o->name);
    else
        snprintf(room, 64, "-%c", o->letter);
    return room;
}

static int set_int(const struct option *o, const char *text, opm_error *err)
{
    char label[64], *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end)
        return opm__fail(err, OPM_EINVAL, "option '%s' wants a whole number, not '%s'",
                         option_label(o, label), text);
    if (errno == ERANGE || v < o->min || v > o->max)
        return opm__fail(err, OPM_EINVAL,
                         "option '%s' wants a number from %" PRId64 " to %" PRId64 ", not '%s'",
                         option_label(o, label), o->min, o->max, text);
    *o->value.i = v;
    return 0;
}

static int set_size(const struct option *o, const char *text, opm_error *err)
{
    char label[64];

    if (!budget_parse_size(text, o->value.size))
        return opm__fail(err, OPM_EINVAL, "option '%s' wants a size such as 512M or 16G, not '%s'",
                         option_label(o, label), text);
    return 0;
}

static int set_choice(const struct option *o, const char *text, opm_error *err)
{
    struct nearest n = { text, NULL, 0 };
    struct buf all = { 0 };
    char label[64];
    int rc;

    for (const char *const *c = o->choices; *c; c++) {
        if (strcmp(*c, text) == 0) {
            *o->value.s = *c;
            buf_release(&all);
            return 0;
        }
        nearest_try(&n, *c);
        buf_addf(&all, "%s%s", c == o->choices ? "" : c[1] ? ", " : " or ", *c);
    }
    if (n.best)
        rc = opm__fail(err, OPM_EINVAL, "option '%s' wants %s, not '%s'; did you mean '%s'?",
                       option_label(o, label), buf_str(&all), text, n.best);
    else
        rc = opm__fail(err, OPM_EINVAL, "option '%s' wants %s, not '%s'", option_label(o, label),
                       buf_str(&all), text);
    buf_release(&all);
    return rc;
}

static int set_value(const struct option *o, const char *text, opm_error *err)
{
    switch (o->kind) {
    case OPTION_STR:
        *o->value.s = text;
        return 0;
    case OPTION_INT:
        return set_int(o, text, err);
    case OPTION_SIZE:
        return set_size(o, text, err);
    case OPTION_CHOICE:
        return set_choice(o, text, err);
    case OPTION_LIST:
        if (!GROW(o->value.list->item, o->value.list->cap, o->value.list->n + 1))
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        o->value.list->item[o->value.list->n++] = text;
        return 0;
    case OPTION_END:
    case OPTION_GROUP:
    case OPTION_ALIAS:
    case OPTION_BOOL:
        break;
    }
    assert(!"an option without a value");
    return 0;
}

/* The arguments not yet looked at. */
struct words {
    char **argv;
    int next;
    int argc;
};

static int missing_value(const struct option *o, opm_error *err)
{
    char label[64];

    return opm__fail(err, OPM_EINVAL, "option '%s' needs a value, %s", option_label(o, label),
                     o->arg);
}

/* A name as our tables have it: others write --batch_size, or call it otherwise altogether. */
static void translate(const struct option *opts, struct lookup *l, char room[NAME_ROOM])
{
    if (l->len >= NAME_ROOM)
        return;
    memcpy(room, l->typed, l->len);
    room[l->len] = '\0';
    for (char *c = strchr(room, '_'); c; c = strchr(c, '_'))
        *c = '-';
    for (const struct option *o = opts; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_ALIAS && strcmp(o->name, room) == 0)
            snprintf(room, NAME_ROOM, "%s", o->arg);
    l->typed = room;
    l->len = strlen(room);
}

/* word is what follows "--". */
static int parse_long(const struct option *opts, const char *word, struct words *w, opm_error *err)
{
    const char *eq = strchr(word, '=');
    struct lookup l = { .typed = word, .len = eq ? (size_t)(eq - word) : strlen(word) };
    size_t len = l.len;
    char room[NAME_ROOM];
    int rc;

    if (!len) /* the beginning of every name, but hardly meant so */
        return opm__fail(err, OPM_EINVAL, "unknown option '--%s'", word);
    translate(opts, &l, room);
    rc = find_name(opts, &l, err);
    if (rc < 0)
        return rc;
    if (!l.found)
        return unknown_name(opts, word, len, err);
    if (l.found->kind == OPTION_BOOL) {
        if (eq)
            return opm__fail(err, OPM_EINVAL, "option '--%.*s' takes no value", (int)len, word);
        if (l.found == &help_option)
            return OPTIONS_HELP;
        *l.found->value.b = !l.negated;
        return 0;
    }
    if (eq)
        return set_value(l.found, eq + 1, err);
    if (w->next == w->argc)
        return missing_value(l.found, err);
    return set_value(l.found, w->argv[w->next++], err);
}

/* letters is what follows "-": booleans, then perhaps one option with its value. */
static int parse_short(const struct option *opts, const char *letters, struct words *w,
                       opm_error *err)
{
    for (; *letters; letters++) {
        const struct option *o = find_letter(opts, *letters);

        if (!o)
            return opm__fail(err, OPM_EINVAL, "unknown option '-%c'", *letters);
        if (o == &help_option)
            return OPTIONS_HELP;
        if (o->kind == OPTION_BOOL) {
            *o->value.b = true;
            continue;
        }
        if (letters[1])
            return set_value(o, letters + 1, err);
        if (w->next == w->argc)
            return missing_value(o, err);
        return set_value(o, w->argv[w->next++], err);
    }
    return 0;
}

int options_parse(const struct option *opts, unsigned flags, int argc, char **argv, int *out_nargs,
                  opm_error *err)
{
    struct words w = { argv, 0, argc };
    bool options_end = false, keep_dashes = flags & OPTIONS_KEEP_DASHES;
    int n = 0, rc = 0;

    while (w.next < argc && rc == 0) {
        char *word = argv[w.next++];

        if (options_end || word[0] != '-' || !word[1]) {
            argv[n++] = word; /* n < next: never overtakes what is still to be read */
            if (flags & OPTIONS_STOP_AT_ARGUMENT)
                options_end = true;
        } else if (strcmp(word, "--") == 0) {
            if (keep_dashes)
                argv[n++] = word;
            else
                options_end = true;
            keep_dashes = false;
        } else if (word[1] == '-') {
            rc = parse_long(opts, word + 2, &w, err);
        } else {
            rc = parse_short(opts, word + 1, &w, err);
        }
    }
    *out_nargs = n;
    return rc;
}

/* Columns of UTF-8 text, taking every code point as one wide: help and messages are ours. */
static int columns_of(const char *s, size_t len)
{
    int n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* Is the word behind a figure its unit, as in "28.8 %" and "1.25 ms (3 %)"? */
static bool is_unit(const char *s)
{
    static const char *const units[] = {
        "%", "ns", "\xc2\xb5s", "ms", "s", "kB", "MB", "GB", "GB/s"
    };
    size_t len = strcspn(s, " \n,.;:)");

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (len == strlen(units[i]) && strncmp(s, units[i], len) == 0)
            return true;
    return false;
}

/* Bytes up to where a line may end: a figure and its unit stay together. */
static size_t word_length(const char *text)
{
    size_t len = strcspn(text, " \n");

    if (len && text[len] == ' ' && text[len - 1] >= '0' && text[len - 1] <= '9' &&
        is_unit(text + len + 1))
        len += 1 + strcspn(text + len + 1, " \n");
    return len;
}

void text_wrap(struct buf *b, const char *text, int col, int indent, int width)
{
    bool line_empty = true;

    while (*text) {
        size_t len = word_length(text);
        int cols = columns_of(text, len);

        if (len && !line_empty && col + 1 + cols > width) {
            buf_addf(b, "\n%*s", indent, "");
            col = indent;
            line_empty = true;
        }
        if (len) {
            if (!line_empty) {
                buf_addc(b, ' ');
                col++;
            }
            buf_add(b, text, len);
            col += cols;
            line_empty = false;
        }
        text += len;
        if (*text == '\n') {
            /* Blank lines stay bare: no trailing spaces. */
            buf_addc(b, '\n');
            if (text[1] && text[1] != '\n')
                buf_addf(b, "%*s", indent, "");
            col = indent;
            line_empty = true;
        }
        if (*text)
            text++;
    }
}

static void help_option_line(struct buf *b, const struct option *o, int width)
{
    size_t start = b->len;
    int col;

    if (o->letter && o->name)
        buf_addf(b, "  -%c, --%s", o->letter, o->name);
    else if (o->letter)
        buf_addf(b, "  -%c", o->letter);
    else
        buf_addf(b, "      --%s", o->name);
    if (o->arg)
        buf_addf(b, " %s", o->arg);
    col = (int)(b->len - start);
    if (col + 2 > HELP_COLUMN) {
        buf_addc(b, '\n');
        col = 0;
    }
    buf_addf(b, "%*s", HELP_COLUMN - col, "");
    text_wrap(b, o->help, HELP_COLUMN, HELP_COLUMN, width);
    buf_addc(b, '\n');
}

void options_help(struct buf *b, const char *usage, const char *about, const struct option *opts,
                  int width)
{
    const char *lead = "usage: ";

    while (*usage) {
        size_t len = strcspn(usage, "\n");

        buf_addf(b, "%s%.*s\n", lead, (int)len, usage);
        lead = "   or: ";
        usage += len + (usage[len] == '\n');
    }
    if (about) {
        buf_addc(b, '\n');
        text_wrap(b, about, 0, 0, width);
        buf_addc(b, '\n');
    }
    if (!opts)
        return;
    buf_addc(b, '\n');
    for (; opts->kind != OPTION_END; opts++) {
        if (opts->kind == OPTION_GROUP)
            buf_addf(b, "\n%s\n", opts->help);
        else if (opts->kind != OPTION_ALIAS)
            help_option_line(b, opts, width);
    }
    help_option_line(b, &help_option, width);
}
