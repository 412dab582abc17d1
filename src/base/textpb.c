/* textpb.c -- see textpb.h. */
#include "base/textpb.h"

#include <string.h>

struct textpb textpb_of(const void *p, size_t len)
{
    const char *s = len ? p : "";

    return (struct textpb){ .start = s, .at = s, .end = s + len };
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '-' || c == '+' || c == '/';
}

/* Blanks, comments and, between fields, commas and semicolons. */
static void skip_blanks(struct textpb *r, bool separators)
{
    while (r->at < r->end) {
        if (*r->at == '#') {
            const char *eol = memchr(r->at, '\n', (size_t)(r->end - r->at));

            r->at = eol ? eol : r->end;
        } else if (is_blank(*r->at) || (separators && (*r->at == ',' || *r->at == ';'))) {
            r->at++;
        } else {
            return;
        }
    }
}

static enum textpb_token fail(struct textpb *r)
{
    return r->token = TEXTPB_BAD;
}

static bool take(struct textpb *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* A field's name: a word, or [an.extension]. */
static bool take_name(struct textpb *r)
{
    bool extension = take(r, '[');

    r->name = r->at;
    while (r->at < r->end && is_word(*r->at))
        r->at++;
    r->name_len = (size_t)(r->at - r->name);
    return r->name_len && (!extension || take(r, ']'));
}

static enum textpb_token take_open(struct textpb *r)
{
    if (r->depth == TEXTPB_DEPTH_MAX)
        return fail(r);
    r->close[r->depth++] = *r->at == '{' ? '}' : '>';
    r->at++;
    return r->token = TEXTPB_OPEN;
}

static enum textpb_token take_value(struct textpb *r)
{
    char quote;

    if (r->at == r->end)
        return fail(r);
    quote = *r->at;
    r->quoted = quote == '"' || quote == '\'';
    if (r->quoted) {
        r->text = ++r->at;
        while (r->at < r->end && *r->at != quote) {
            r->at += *r->at == '\\' && r->end - r->at > 1;
            r->at++;
        }
        r->len = (size_t)(r->at - r->text);
        return take(r, quote) ? (r->token = TEXTPB_VALUE) : fail(r);
    }
    r->text = r->at;
    while (r->at < r->end && is_word(*r->at))
        r->at++;
    r->len = (size_t)(r->at - r->text);
    return r->len ? (r->token = TEXTPB_VALUE) : fail(r);
}

/* Behind a colon or inside a list: a message or a value. */
static enum textpb_token take_element(struct textpb *r)
{
    if (r->at < r->end && (*r->at == '{' || *r->at == '<'))
        return take_open(r);
    return take_value(r);
}

enum textpb_token textpb_next(struct textpb *r)
{
    if (r->token == TEXTPB_BAD && r->at != r->start)
        return TEXTPB_BAD;
    skip_blanks(r, true);
    if (r->in_list && take(r, ']')) {
        r->in_list = false;
        skip_blanks(r, true);
    }
    if (r->at == r->end)
        return r->depth || r->in_list ? fail(r) : (r->token = TEXTPB_DONE);
    if (r->in_list) /* lists of messages are written field by field, so this is a value */
        return take_value(r);
    if (*r->at == '}' || *r->at == '>') {
        if (!r->depth || r->close[r->depth - 1] != *r->at)
            return fail(r);
        r->depth--;
        r->at++;
        return r->token = TEXTPB_CLOSE;
    }
    if (!take_name(r))
        return fail(r);
    skip_blanks(r, false);
    if (!take(r, ':'))
        return r->at < r->end && (*r->at == '{' || *r->at == '<') ? take_open(r) : fail(r);
    skip_blanks(r, false);
    if (take(r, '[')) {
        r->in_list = true;
        return textpb_next(r);
    }
    return take_element(r);
}

bool textpb_skip(struct textpb *r)
{
    int depth = r->depth;

    while (r->depth >= depth)
        if (textpb_next(r) == TEXTPB_BAD || r->token == TEXTPB_DONE)
            return false;
    return true;
}

bool textpb_is(const struct textpb *r, const char *name)
{
    return r->name_len == strlen(name) && memcmp(r->name, name, r->name_len) == 0;
}
