/* textpb.h -- read protobuf's text format as a sequence of tokens, in place.
 *
 *     struct textpb r = textpb_of(text, len);
 *     while (textpb_next(&r) != TEXTPB_CLOSE) ...
 *
 * Nothing is allocated, no recursion, nesting limited to TEXTPB_DEPTH_MAX. Fields without a schema:
 * a value is its text. After the first mistake every call gives TEXTPB_BAD. */
#ifndef BASE_TEXTPB_H
#define BASE_TEXTPB_H

#include "base/common.h"

#define TEXTPB_DEPTH_MAX 64

enum textpb_token {
    TEXTPB_BAD,   /* not in this format, or nested too deeply */
    TEXTPB_DONE,  /* the text ended where it may */
    TEXTPB_OPEN,  /* name { */
    TEXTPB_CLOSE, /* } */
    TEXTPB_VALUE, /* name: text; of a list each element */
};

struct textpb {
    const char *start, *at, *end;
    enum textpb_token token;
    const char *name; /* of the field */
    size_t name_len;
    const char *text; /* TEXTPB_VALUE: between the quotes, escapes as they stand; or the word */
    size_t len;
    bool quoted;
    bool in_list;
    int depth;
    char close[TEXTPB_DEPTH_MAX];
};

struct textpb textpb_of(const void *p, size_t len);
enum textpb_token textpb_next(struct textpb *r);
/* Pass over the message that was just opened. False: TEXTPB_BAD. */
bool textpb_skip(struct textpb *r);
bool textpb_is(const struct textpb *r, const char *name); /* the field's name */

#endif
