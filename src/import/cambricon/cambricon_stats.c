/* cambricon_stats.c -- TensorFlow's StepStats as text: what ran in a step, and when. */
#include "base/textpb.h"
#include "import/cambricon/cambricon_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct text value_of(const struct textpb *r)
{
    return (struct text){ r->text, r->len };
}

static int64_t int_of(const struct textpb *r)
{
    int64_t v;

    return text_decimal(value_of(r), 0, &v) ? v : OPM_NULL_I64;
}

static int64_t us_ns(const struct textpb *r)
{
    int64_t v;

    return text_decimal(value_of(r), 3, &v) ? v : OPM_NULL_I64;
}

/* Fields of a message until it closes. The caller looks at those it knows; messages that it does
 * not open are passed over. */
static bool field_next(struct textpb *r)
{
    enum textpb_token t = textpb_next(r);

    return t == TEXTPB_VALUE || t == TEXTPB_OPEN;
}

static void skip_if_open(struct textpb *r)
{
    if (r->token == TEXTPB_OPEN)
        textpb_skip(r);
}

/* shape { dim { size: 1 } ... } */
static void shape_read(struct textpb *r, char *to, size_t room)
{
    size_t n = 0;

    to[0] = '\0';
    while (field_next(r)) {
        if (r->token != TEXTPB_OPEN || !textpb_is(r, "dim")) {
            skip_if_open(r);
            continue;
        }
        while (field_next(r)) {
            if (r->token == TEXTPB_VALUE && textpb_is(r, "size") && n < room)
                n += (size_t)snprintf(to + n, room - n, "%s%" PRId64, n ? "x" : "", int_of(r));
            skip_if_open(r);
        }
    }
    if (n >= room)
        to[0] = '\0'; /* better none than a wrong one */
}

static void output_read(struct textpb *r, struct cam_node *n)
{
    struct cam_output o = { .slot = 0 };

    while (field_next(r)) {
        if (r->token == TEXTPB_VALUE) {
            if (textpb_is(r, "slot"))
                o.slot = int_of(r);
        } else if (textpb_is(r, "tensor_description")) {
            while (field_next(r)) {
                if (r->token == TEXTPB_OPEN && textpb_is(r, "shape"))
                    shape_read(r, o.shape, sizeof(o.shape));
                else if (r->token == TEXTPB_VALUE && textpb_is(r, "dtype"))
                    o.dtype = value_of(r);
                else
                    skip_if_open(r);
            }
        } else {
            skip_if_open(r);
        }
    }
    if (n->noutput < CAM_OUTPUTS_MAX)
        n->output[n->noutput++] = o;
}

static void memory_read(struct textpb *r, struct cam_node *n)
{
    while (field_next(r)) {
        int64_t v = r->token == TEXTPB_VALUE ? int_of(r) : OPM_NULL_I64;

        if (r->token == TEXTPB_VALUE && textpb_is(r, "total_bytes") && v >= 0 &&
            (n->bytes == OPM_NULL_I64 || n->bytes < INT64_MAX - v))
            n->bytes = (n->bytes == OPM_NULL_I64 ? 0 : n->bytes) + v;
        skip_if_open(r);
    }
}

static bool is_blank(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || (*from >= '\t' && *from <= '\r')))
        from++;
    return from == to;
}

/* The messages are kept as they stand as well; they come one behind the other. */
static void memory_take(struct textpb *r, struct cam_node *n)
{
    const char *from = r->name;

    memory_read(r, n);
    if (r->token == TEXTPB_BAD)
        return;
    if (!n->memory.len)
        n->memory = (struct text){ from, (size_t)(r->at - from) };
    else if (is_blank(n->memory.p + n->memory.len, from))
        n->memory.len = (size_t)(r->at - n->memory.p);
}

static void node_read(struct textpb *r, struct cam_node *n)
{
    int64_t start_ns = OPM_NULL_I64, end_ns = OPM_NULL_I64;

    n->thread = n->bytes = n->scheduled_ns = n->ts_ns = OPM_NULL_I64;
    n->op_start_ns = n->op_end_ns = OPM_NULL_I64;
    n->dur_ns = -1;
    while (field_next(r)) {
        if (r->token == TEXTPB_OPEN) {
            if (textpb_is(r, "output"))
                output_read(r, n);
            else if (textpb_is(r, "memory"))
                memory_take(r, n);
            else
                textpb_skip(r);
        } else if (textpb_is(r, "node_name")) {
            n->name = value_of(r);
        } else if (textpb_is(r, "timeline_label")) {
            n->label = value_of(r);
        } else if (textpb_is(r, "all_start_micros")) {
            n->ts_ns = us_ns(r);
        } else if (textpb_is(r, "all_end_rel_micros")) {
            n->dur_ns = us_ns(r);
        } else if (textpb_is(r, "all_start_nanos")) {
            start_ns = int_of(r);
        } else if (textpb_is(r, "all_end_rel_nanos")) {
            end_ns = int_of(r);
        } else if (textpb_is(r, "op_start_rel_micros")) {
            n->op_start_ns = us_ns(r);
        } else if (textpb_is(r, "op_end_rel_micros")) {
            n->op_end_ns = us_ns(r);
        } else if (textpb_is(r, "scheduled_micros")) {
            n->scheduled_ns = us_ns(r);
        } else if (textpb_is(r, "thread_id")) {
            n->thread = int_of(r);
        }
    }
    /* Newer ones have both; nanoseconds are the finer. */
    if (start_ns > 0 && end_ns >= 0) {
        n->ts_ns = start_ns;
        n->dur_ns = end_ns;
    }
}

void cam_read_stats(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len)
{
    struct textpb r = textpb_of(data, len);
    struct cam_step *s = cam_step(c, model, step);

    while (!c->b.rc && field_next(&r)) {
        struct text device = { "", 0 };

        if (r.token != TEXTPB_OPEN || !textpb_is(&r, "dev_stats")) {
            skip_if_open(&r);
            continue;
        }
        while (!c->b.rc && field_next(&r)) {
            if (r.token == TEXTPB_VALUE) {
                if (textpb_is(&r, "device"))
                    device = value_of(&r);
            } else if (textpb_is(&r, "node_stats")) {
                struct cam_node n = { .device = device };

                node_read(&r, &n);
                if (r.token == TEXTPB_BAD)
                    break; /* a node that is cut off is not believed */
                if (n.ts_ns == OPM_NULL_I64 || n.ts_ns < 0 || n.ts_ns > INT64_MAX / 2 ||
                    n.dur_ns > INT64_MAX / 4) {
                    store_stat(c->b.st, STAT_bad_time, 1);
                    continue;
                }
                s->stats = s->timed = true;
                cam_node(c, s, &n);
            } else {
                textpb_skip(&r);
            }
        }
    }
    store_stat(c->b.st, STAT_file_truncated, r.token == TEXTPB_BAD);
}
