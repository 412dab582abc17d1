/* pbtext.c -- see pbtext.h. */
#include "base/pbtext.h"

#include "base/pb.h"

#include <ctype.h>
#include <opmeter/opmeter_error.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *p, *end;
    struct buf *out;
    struct buf text; /* a string with its escapes resolved */
    struct pbtext_result *result;
    int depth;
    bool failed; /* no memory */
};

static void skip_space(struct parser *s)
{
    while (s->p < s->end) {
        if (*s->p == '#') {
            while (s->p < s->end && *s->p != '\n')
                s->p++;
        } else if (isspace((unsigned char)*s->p) || *s->p == ',' || *s->p == ';') {
            s->result->line += *s->p == '\n';
            s->p++;
        } else {
            return;
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-' || c == '+';
}

static size_t word(struct parser *s, const char **out)
{
    *out = s->p;
    while (s->p < s->end && is_word(*s->p))
        s->p++;
    return (size_t)(s->p - *out);
}

/* The byte of an escape; s->p is behind the backslash. */
static char escape(struct parser *s)
{
    static const char plain[] = "ntrabfv", meant[] = "\n\t\r\a\b\f\v";
    char c = *s->p++;
    const char *at = strchr(plain, c);
    int v = 0;

    if (c && at)
        return meant[at - plain];
    if (c == 'x' || c == 'X') {
        for (int i = 0; i < 2 && s->p < s->end && isxdigit((unsigned char)*s->p); i++, s->p++)
            v = v * 16 + (isdigit((unsigned char)*s->p) ? *s->p - '0' : (*s->p | 32) - 'a' + 10);
        return (char)v;
    }
    if (c >= '0' && c <= '7') {
        v = c - '0';
        for (int i = 0; i < 2 && s->p < s->end && *s->p >= '0' && *s->p <= '7'; i++, s->p++)
            v = v * 8 + (*s->p - '0');
        return (char)v;
    }
    return c;
}

/* One string, or several that stand together. False if it does not end. */
static bool string_value(struct parser *s)
{
    buf_clear(&s->text);
    while (s->p < s->end && (*s->p == '"' || *s->p == '\'')) {
        char quote = *s->p++;

        while (s->p < s->end && *s->p != quote && *s->p != '\n') {
            char c = *s->p++;

            if (c == '\\' && s->p < s->end)
                c = escape(s);
            buf_addc(&s->text, c);
        }
        s->failed |= s->text.failed;
        if (s->p == s->end || *s->p != quote)
            return false;
        s->p++;
        skip_space(s);
    }
    return true;
}

static void put_enum(struct parser *s, const struct pbtext_field *f, const char *w, size_t n)
{
    for (size_t i = 0; i < f->nname; i++) {
        if (f->names[i] && strlen(f->names[i]) == n && memcmp(f->names[i], w, n) == 0) {
            pb_varint(s->out, f->number, i);
            return;
        }
    }
    s->result->unknown++;
}

/* A value that is one word; f NULL: it is passed over. */
static void put_word(struct parser *s, const struct pbtext_field *f, const char *w, size_t n)
{
    char text[64], *end;
    unsigned long long u;

    if (!f)
        return;
    snprintf(text, sizeof(text), "%.*s", (int)MIN(n, sizeof(text) - 1), w);
    if (f->kind == PBTEXT_DOUBLE) {
        pb_double(s->out, f->number, strtod(text, NULL));
        return;
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        pb_varint(s->out, f->number, text[0] == 't');
        return;
    }
    u = text[0] == '-' ? (unsigned long long)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end != text && (f->kind == PBTEXT_INT || f->kind == PBTEXT_ENUM))
        pb_varint(s->out, f->number, u);
    else if (f->kind == PBTEXT_ENUM)
        put_enum(s, f, w, n);
    else
        s->result->unknown++;
}

static bool fields(struct parser *s, const struct pbtext_field *message, char closing);

/* One value of f; f NULL: pass over it. */
static bool value(struct parser *s, const struct pbtext_field *f)
{
    char open = s->p < s->end ? *s->p : 0;
    const char *w;
    size_t n, mark;
    bool good;

    if (open == '{' || open == '<') {
        const struct pbtext_field *inner = f && f->kind == PBTEXT_MESSAGE ? f->message : NULL;

        if (++s->depth > PBTEXT_DEPTH_MAX)
            return false;
        s->p++;
        mark = inner ? pb_begin(s->out, f->number) : 0;
        good = fields(s, inner, open == '{' ? '}' : '>');
        if (inner)
            pb_end(s->out, mark);
        s->depth--;
        return good;
    }
    if (open == '"' || open == '\'') {
        if (!string_value(s))
            return false;
        if (f && f->kind == PBTEXT_STRING)
            pb_bytes(s->out, f->number, buf_str(&s->text), s->text.len);
        return true;
    }
    n = word(s, &w);
    put_word(s, f, w, n);
    return n != 0;
}

static const struct pbtext_field *find(const struct pbtext_field *message, const char *name,
                                       size_t len)
{
    for (; message && message->name; message++)
        if (strlen(message->name) == len && memcmp(message->name, name, len) == 0)
            return message;
    return NULL;
}

/* name: value, name { ... }, name: [value, value]; up to the closing bracket. */
static bool fields(struct parser *s, const struct pbtext_field *message, char closing)
{
    for (;;) {
        const struct pbtext_field *f;
        const char *name;
        size_t len;

        skip_space(s);
        if (s->p == s->end)
            return closing == 0;
        if (closing && *s->p == closing) {
            s->p++;
            return true;
        }
        if (*s->p == '[') { /* an extension */
            while (s->p < s->end && *s->p != ']')
                s->p++;
            s->p += s->p < s->end;
            f = NULL;
            s->result->unknown += message != NULL;
        } else {
            len = word(s, &name);
            if (!len)
                return false;
            f = find(message, name, len);
            s->result->unknown += message && !f;
        }
        skip_space(s);
        if (s->p < s->end && *s->p == ':')
            s->p++;
        skip_space(s);
        if (s->p < s->end && *s->p == '[') {
            for (s->p++, skip_space(s); s->p < s->end && *s->p != ']'; skip_space(s))
                if (!value(s, f))
                    return false;
            if (s->p == s->end)
                return false;
            s->p++;
        } else if (!value(s, f)) {
            return false;
        }
    }
}

int pbtext_to_wire(const char *text, size_t len, const struct pbtext_field *message,
                   struct buf *out, struct pbtext_result *result)
{
    struct parser s = { .p = text, .end = text + len, .out = out, .result = result };
    bool failed;

    *result = (struct pbtext_result){ .line = 1 };
    result->bad = !fields(&s, message, 0);
    failed = s.failed || out->failed;
    buf_release(&s.text);
    return failed ? OPM_ENOMEM : 0;
}
