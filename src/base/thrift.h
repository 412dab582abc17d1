/* thrift.h -- thrift's compact protocol: write into a buf, read from bounded bytes. */
#ifndef BASE_THRIFT_H
#define BASE_THRIFT_H

#include "base/buf.h"
#include "base/rd.h"

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_I8 = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
};

#define THRIFT_DEPTH_MAX 32 /* of structs and lists in each other */

/* Writing. Fields of a struct by rising id; structs nest. */
struct thrift_put {
    struct buf *out;
    int16_t last[THRIFT_DEPTH_MAX]; /* id of the field before, per struct that is open */
    int depth;
};

struct thrift_put thrift_put_of(struct buf *out); /* a struct is open: close it with end() */
void thrift_put_bool(struct thrift_put *t, int id, bool v);
void thrift_put_i16(struct thrift_put *t, int id, int16_t v);
void thrift_put_i32(struct thrift_put *t, int id, int32_t v);
void thrift_put_i64(struct thrift_put *t, int id, int64_t v);
void thrift_put_bytes(struct thrift_put *t, int id, const void *p, size_t len);
void thrift_put_str(struct thrift_put *t, int id, const char *s);
void thrift_put_struct(struct thrift_put *t, int id); /* open one; close it with end() */
void thrift_put_list(struct thrift_put *t, int id, enum thrift_type of, size_t n);
/* Items of a list. Structs are closed with end(). */
void thrift_item_struct(struct thrift_put *t);
void thrift_item_i32(struct thrift_put *t, int32_t v);
void thrift_item_str(struct thrift_put *t, const char *s);
void thrift_put_end(struct thrift_put *t);

/* Reading. thrift_next() gives the fields of a struct one by one. Of one that is a struct, a list,
 * a set or a map the content comes next: the reader goes in, or skips it. */
struct thrift_struct {
    struct rd *r;
    int16_t last;
    int depth;
};

struct thrift_field {
    int id;
    enum thrift_type type; /* THRIFT_TRUE: a boolean, in i */
    int64_t i;             /* numbers */
    const uint8_t *p;      /* THRIFT_BINARY; of a list: nothing */
    size_t len;            /* of it; of a list or set: how many items */
    enum thrift_type item; /* of a list or set */
};

struct thrift_struct thrift_open(struct rd *r);
/* A struct that is a field or an item of s comes next. At a depth of THRIFT_DEPTH_MAX: r->bad. */
struct thrift_struct thrift_enter(const struct thrift_struct *s);
/* True and *out, or false at the end or on malformed bytes (r->bad tells). */
bool thrift_next(struct thrift_struct *s, struct thrift_field *out);
/* The next item of a list of numbers or texts. False: malformed. */
bool thrift_item(struct thrift_struct *s, enum thrift_type type, struct thrift_field *out);
/* Past the content of a field that thrift_next() gave. */
void thrift_skip(struct thrift_struct *s, const struct thrift_field *f);

#endif
