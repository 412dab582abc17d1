/* event_shape.c -- see event_shape.h. */
#include "import/json/event_shape.h"

#include "base/alloc.h"
#include "import/json/event_shorten.h"

#include <opmeter/opmeter_error.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define GUESSES ((size_t)1 << 15)
#define NO_SHAPE UINT32_MAX
#define NOT_CLEAN 1
#define ARENA_MAX_BYTES ((size_t)24 << 20) /* shapes are forgotten beyond */
/* What can be seen when something is wrong. So much, or the end of the text, must be there before
 * anything is decided, or the outcome would depend on how the text was cut into blocks. */
#define REPAIR_MAX_BYTES ((size_t)256 << 10)

int event_reader_init(struct event_reader *r)
{
    *r = (struct event_reader){ .nslot = 1024, .batch_max = EVENT_BATCH_MAX };
    r->slot = mem_calloc(r->nslot, sizeof(*r->slot));
    r->guess = mem_alloc(GUESSES * sizeof(*r->guess));
    if (!r->slot || !r->guess) {
        event_reader_release(r);
        return OPM_ENOMEM;
    }
    event_reader_forget(r);
    return 0;
}

void event_reader_release(struct event_reader *r)
{
    mem_free(r->shape);
    mem_free(r->slot);
    mem_free(r->guess);
    arena_release(&r->arena);
    arena_release(&r->users);
    mem_free(r->batch.shape);
    mem_free(r->batch.value);
    *r = (struct event_reader){ 0 };
}

bool event_reader_full(const struct event_reader *r)
{
    return r->arena.used > ARENA_MAX_BYTES;
}

void event_reader_forget(struct event_reader *r)
{
    r->nshape = 0;
    arena_release(&r->arena);
    arena_release(&r->users);
    memset(r->slot, 0, r->nslot * sizeof(*r->slot));
    memset(r->guess, 0xff, GUESSES * sizeof(*r->guess));
    r->last[0] = r->last[1] = 0;
}

void event_batch_clear(struct event_batch *b)
{
    b->n = b->nvalue = 0;
    b->missing_commas = b->stray_commas = b->skipped = b->skipped_bytes = 0;
    b->texts_cut = b->too_long = 0;
    b->cut = false;
    memset(b->dirt, 0, sizeof(b->dirt));
}

static inline bool same_text(const char *a, const char *b, size_t n)
{
#ifdef __SSE2__
    if (LIKELY(n >= 16)) {
        size_t i = 0;

        for (; i + 64 <= n; i += 64) {
            __m128i x[4];

            for (int k = 0; k < 4; k++)
                x[k] = _mm_cmpeq_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(a + i + 16 * k)),
                    _mm_loadu_si128((const __m128i *)(const void *)(b + i + 16 * k)));
            if (_mm_movemask_epi8(
                    _mm_and_si128(_mm_and_si128(x[0], x[1]), _mm_and_si128(x[2], x[3]))) != 0xffff)
                return false;
        }
        for (; i + 16 <= n; i += 16)
            if (_mm_movemask_epi8(_mm_cmpeq_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(a + i)),
                    _mm_loadu_si128((const __m128i *)(const void *)(b + i)))) != 0xffff)
                return false;
        return _mm_movemask_epi8(_mm_cmpeq_epi8(
                   _mm_loadu_si128((const __m128i *)(const void *)(a + n - 16)),
                   _mm_loadu_si128((const __m128i *)(const void *)(b + n - 16)))) == 0xffff;
    }
#endif
    return memcmp(a, b, n) == 0;
}

/* If the event at p is of the shape, its values and where it ends; else NULL. */
static const char *match(const struct event_shape *s, const char *p, const char *end,
                         int64_t *value)
{
    const char *text = s->text;
    const struct hole *h = s->hole, *hend = h + s->nhole;
    uint32_t at = 0;

    if (UNLIKELY((size_t)(end - p) < s->room))
        return NULL;
    for (; h < hend; h++) {
        if (!same_text(p, text + at, h->at - at))
            return NULL;
        p += h->at - at;
        at = h->at + h->len;
        switch (h->type) {
        case HOLE_TIME:
            p = scan_time(p, value++);
            break;
        case HOLE_INT:
            p = scan_int(p, value++);
            break;
        case HOLE_DECIMAL:
            p = scan_decimal(p, value);
            value += 2;
            break;
        default:
            p = scan_hex(p, value++);
            break;
        }
        if (!p)
            return NULL;
    }
    return same_text(p, text + at, s->len - at) ? p + s->len - at : NULL;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 m = (unsigned __int128)a * b;

    return (a ^ (uint64_t)m) ^ (b ^ (uint64_t)(m >> 64));
}

static uint64_t hash_bytes(uint64_t h, const char *p, size_t n)
{
    uint64_t a = 0, b = 0;

    for (; n >= 16; n -= 16, p += 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = mix(a ^ h, b ^ 0xe7037ed1a0b428dbu);
    }
    a = b = 0;
    memcpy(&a, p, MIN(n, (size_t)8));
    if (n > 8)
        memcpy(&b, p + 8, n - 8);
    return mix(a ^ h ^ n, b ^ 0x8ebc6af09c88c6e3u);
}

/* Of the text that is no hole, and of what is in the holes' places. */
static uint64_t scan_hash(const struct event_scan *s, const char *text)
{
    static const char seed;
    uint64_t h = (uintptr_t)&seed ^ 0xa0761d6478bd642fu;
    size_t at = 0;

    for (unsigned i = 0; i < s->nhole; i++) {
        h = hash_bytes(h ^ s->hole[i].type, text + at, s->hole[i].at - at);
        at = s->hole[i].at + s->hole[i].len;
    }
    return hash_bytes(h, text + at, (size_t)(s->end - text) - at);
}

static bool is_scanned(const struct event_shape *sh, const struct event_scan *s, const char *text)
{
    size_t at = 0, k = 0, len = (size_t)(s->end - text);

    if (sh->nhole != s->nhole)
        return false;
    for (unsigned i = 0; i < s->nhole; i++) {
        const struct hole *a = &sh->hole[i], *b = &s->hole[i];

        if (a->type != b->type || a->at - k != b->at - at ||
            memcmp(sh->text + k, text + at, a->at - k) != 0)
            return false;
        k = a->at + a->len;
        at = b->at + b->len;
    }
    return sh->len - k == len - at && memcmp(sh->text + k, text + at, len - at) == 0;
}

static size_t probe(const struct event_reader *r, uint64_t hash, const char *text)
{
    size_t i = (size_t)hash & (r->nslot - 1);

    for (; r->slot[i]; i = (i + 1) & (r->nslot - 1)) {
        const struct event_shape *sh = &r->shape[r->slot[i] - 1];

        if (sh->hash == hash && (!text || is_scanned(sh, &r->scan, text)))
            return i;
    }
    return i;
}

static int enlarge(struct event_reader *r)
{
    size_t n = r->nslot * 2;
    uint32_t *slot = mem_calloc(n, sizeof(*slot));

    if (!slot)
        return OPM_ENOMEM;
    for (size_t k = 0; k < r->nshape; k++) {
        size_t i = (size_t)r->shape[k].hash & (n - 1);

        while (slot[i])
            i = (i + 1) & (n - 1);
        slot[i] = (uint32_t)k + 1;
    }
    mem_free(r->slot);
    r->slot = slot;
    r->nslot = n;
    return 0;
}

static struct hole *keep_holes(struct event_reader *r, const struct event_scan *s)
{
    struct hole *h = arena_alloc(&r->arena, (s->nhole + 1) * sizeof(*h));

    if (h)
        memcpy(h, s->hole, s->nhole * sizeof(*h));
    return h;
}

/* Make the text of a shape strict. 0, NOT_CLEAN if the holes do not come out the same, or
 * OPM_ENOMEM. */
static int clean(struct event_reader *r, struct event_shape *sh)
{
    struct event_scan *again;
    const char *next;
    struct buf text = { 0 };
    int rc = NOT_CLEAN;

    if (event_repair(sh->text, sh->text + sh->len, &text, &next, &sh->dirt) != SCAN_OK) {
        buf_release(&text);
        return NOT_CLEAN;
    }
    sh->strict_len = (uint32_t)text.len;
    for (int i = 0; i < EVENT_SLACK; i++)
        buf_addc(&text, '\0');
    again = mem_alloc(sizeof(*again));
    sh->strict = text.failed ? NULL : arena_strndup(&r->arena, text.data, text.len);
    if (!sh->strict || !again)
        rc = OPM_ENOMEM;
    else if (event_scan(again, sh->strict, sh->strict + sh->strict_len) == SCAN_OK &&
             again->nhole == sh->nhole && again->nvalue == sh->nvalue) {
        sh->strict_hole = keep_holes(r, again);
        rc = sh->strict_hole ? 0 : OPM_ENOMEM;
    }
    mem_free(again);
    buf_release(&text);
    return rc;
}

/* The shape of what was scanned at text; a new one if need be. 0, OPM_ENOMEM, or NOT_CLEAN: it must
 * be repaired first. */
static int find_shape(struct event_reader *r, const char *text, uint32_t *out)
{
    const struct event_scan *s = &r->scan;
    size_t len = (size_t)(s->end - text), at;
    uint64_t hash = scan_hash(s, text);
    struct event_shape sh = { .hash = hash, .next = NO_SHAPE };
    char *copy;
    int rc = 0;

    at = probe(r, hash, text);
    if (r->slot[at]) {
        *out = r->slot[at] - 1;
        return 0;
    }
    if (r->nshape >= r->nslot / 2) {
        if (enlarge(r))
            return OPM_ENOMEM;
        at = probe(r, hash, text);
    }
    copy = arena_alloc(&r->arena, len + EVENT_SLACK);
    if (!copy || !GROW(r->shape, r->shape_cap, r->nshape + 1) || len > UINT32_MAX / 2)
        return OPM_ENOMEM;
    memcpy(copy, text, len);
    sh.text = sh.strict = copy;
    sh.len = sh.strict_len = (uint32_t)len;
    sh.nhole = (uint16_t)s->nhole;
    sh.nvalue = (uint16_t)s->nvalue;
    sh.room = (uint32_t)len + EVENT_HOLE_BYTES * s->nhole;
    sh.hole = keep_holes(r, s);
    sh.strict_hole = sh.hole;
    if (!sh.hole)
        return OPM_ENOMEM;
    if (s->dirt | event_text_dirt(copy, len))
        rc = clean(r, &sh);
    if (rc)
        return rc;
    *out = (uint32_t)r->nshape;
    r->shape[r->nshape++] = sh;
    r->slot[at] = (uint32_t)r->nshape;
    return 0;
}

static int batch_add(struct event_reader *r, uint32_t shape)
{
    struct event_batch *b = &r->batch;

    if (!GROW(b->shape, b->cap, b->n + 1) ||
        !GROW(b->value, b->value_cap, b->nvalue + 4 * (size_t)EVENT_HOLES_MAX))
        return OPM_ENOMEM;
    b->shape[b->n++] = shape;
    return 0;
}

/* Add what r->scan says about text. As find_shape(). */
static int add_scanned(struct event_reader *r, const char *text)
{
    struct event_batch *b = &r->batch;
    uint32_t shape;
    int rc = find_shape(r, text, &shape);

    if (rc)
        return rc;
    if (batch_add(r, shape))
        return OPM_ENOMEM;
    memcpy(b->value + b->nvalue, r->scan.value, r->scan.nvalue * sizeof(*b->value));
    b->nvalue += r->scan.nvalue;
    r->shape[r->last[0]].next = shape;
    r->last[1] = r->last[0];
    r->last[0] = shape;
    return 0;
}

static void note_skipped(struct event_batch *b, size_t bytes)
{
    b->skipped++;
    b->skipped_bytes += bytes;
}

/* How far one can see from p on; NULL: not far enough yet. */
static const char *horizon(const char *p, const char *end, bool last)
{
    if (end - p > (ptrdiff_t)REPAIR_MAX_BYTES)
        return p + REPAIR_MAX_BYTES;
    return last ? end : NULL;
}

/* Whether text that is passed over has the bracket that ends the list: one that nothing opens. */
static bool has_closing(const char *p, const char *end)
{
    size_t open = 0;
    bool string = false;

    for (; p < end; p++) {
        if (*p == '"')
            string = !string;
        else if (string)
            p += *p == '\\';
        else if (*p == '[')
            open++;
        else if (*p == ']' && !open--)
            return true;
    }
    return false;
}

/* An event at *at that is no JSON: repair it or pass over it. 0, READ_MORE or OPM_ENOMEM. */
static int read_broken(struct event_reader *r, const char **at, const char *end, bool last)
{
    const char *stop = horizon(*at, end, last), *next = NULL;
    struct buf text = { 0 };
    unsigned dirt = 0;
    enum scan_result got;
    int rc = 0;

    if (!stop)
        return READ_MORE;
    got = event_repair(*at, stop, &text, &next, &dirt);
    if (got == SCAN_OK) {
        size_t len = text.len;

        for (int i = 0; i < EVENT_SLACK; i++)
            buf_addc(&text, '\0');
        if (!text.failed && event_scan(&r->scan, text.data, text.data + len) != SCAN_OK)
            got = SCAN_BAD;
        else if (!text.failed)
            rc = add_scanned(r, text.data);
        if (rc == NOT_CLEAN) {
            got = SCAN_BAD;
            rc = 0;
        }
        for (int i = 0; i < DIRT_COUNT && !rc && got == SCAN_OK; i++)
            r->batch.dirt[i] += dirt >> i & 1;
    }
    if (text.failed)
        rc = OPM_ENOMEM;
    buf_release(&text);
    if (rc)
        return rc;
    if (got != SCAN_OK) {
        next = event_resync(*at + 1, stop);
        if (got == SCAN_MORE && stop == end && next == end)
            r->batch.cut = true;
        else
            note_skipped(&r->batch, (size_t)(next - *at));
        if (next == end)
            r->closed = has_closing(*at, end);
    }
    *at = next;
    return rc;
}

/* Repair an event that is all of text, and add it. 0, OPM_ENOMEM, or NOT_CLEAN: in vain. */
static int add_repaired(struct event_reader *r, const struct buf *text, size_t len)
{
    struct buf strict = { 0 };
    const char *next = NULL;
    unsigned dirt = 0;
    size_t n;
    int rc = NOT_CLEAN;

    if (event_repair(text->data, text->data + len, &strict, &next, &dirt) == SCAN_OK) {
        n = strict.len;
        for (int i = 0; i < EVENT_SLACK; i++)
            buf_addc(&strict, '\0');
        if (!strict.failed && event_scan(&r->scan, strict.data, strict.data + n) == SCAN_OK)
            rc = add_scanned(r, strict.data);
        for (int i = 0; i < DIRT_COUNT && !rc; i++)
            r->batch.dirt[i] += dirt >> i & 1;
    }
    if (strict.failed)
        rc = OPM_ENOMEM;
    buf_release(&strict);
    return rc;
}

/* What was scanned at *at is very long: of it, so much that it can be kept. One copy is made, and
 * of no more than is kept. 0 or OPM_ENOMEM. */
static int read_long(struct event_reader *r, const char **at)
{
    const char *end = r->scan.end;
    struct buf text = { 0 };
    size_t cut, len;
    int rc = NOT_CLEAN;
    bool fits = event_shorten(*at, end, &text, &cut);

    len = text.len;
    for (int i = 0; i < EVENT_SLACK; i++)
        buf_addc(&text, '\0');
    if (fits && !text.failed) {
        if (event_scan(&r->scan, text.data, text.data + len) == SCAN_OK)
            rc = add_scanned(r, text.data);
        if (rc == NOT_CLEAN)
            rc = add_repaired(r, &text, len);
    }
    if (text.failed)
        rc = OPM_ENOMEM;
    buf_release(&text);
    r->batch.texts_cut += rc == 0 ? cut : 0;
    r->batch.too_long += rc == NOT_CLEAN;
    *at = end;
    return rc == NOT_CLEAN ? 0 : rc;
}

/* Between events: commas and white space. READ_LIMIT: something follows, *at is there. */
static int to_next(struct event_reader *r, const char **at, const char *end)
{
    const char *p = *at;
    unsigned commas = 0;

    for (; p < end && (is_blank(*p) || *p == ','); p++)
        commas += *p == ',';
    if (p >= end)
        return READ_MORE; /* the commas are looked at again */
    if (*p == '{' && r->after_event && !commas)
        r->batch.missing_commas++;
    else
        r->batch.stray_commas += commas - (*p != ']' && r->after_event && commas);
    r->after_event = false;
    *at = p;
    return *p == ']' ? READ_CLOSED : READ_LIMIT;
}

/* One event at *at, an opening brace. 0, READ_MORE or OPM_ENOMEM. */
static int read_event(struct event_reader *r, const char **at, const char *end, bool last)
{
    int rc;

    switch (event_scan(&r->scan, *at, end)) {
    case SCAN_OK:
        if (UNLIKELY((size_t)(r->scan.end - *at) > EVENT_LONG_BYTES))
            return read_long(r, at);
        rc = add_scanned(r, *at);
        if (rc == NOT_CLEAN)
            return read_broken(r, at, end, last);
        *at = r->scan.end;
        return rc;
    case SCAN_MORE:
        if (!last)
            return READ_MORE;
        return read_broken(r, at, end, last);
    default:
        return read_broken(r, at, end, last);
    }
}

/* Where the shape that followed `last` before is kept. */
static inline size_t guess_slot(const uint32_t last[2])
{
    return (last[0] * 0x9e3779b1u ^ last[1] * 0x85ebca6bu) >> 17;
}

/* If the next event is of a shape that was guessed, its end, values added to the batch; else NULL.
 */
static inline const char *read_guessed(struct event_reader *r, const char *p, const char *end)
{
    struct event_batch *b = &r->batch;
    size_t slot = guess_slot(r->last);
    uint32_t guess = r->guess[slot];
    const char *q = NULL;

    if (guess < r->nshape)
        q = match(&r->shape[guess], p, end, b->value + b->nvalue);
    if (UNLIKELY(!q) && r->nshape) {
        uint32_t other = r->shape[r->last[0]].next;

        if (other < r->nshape && other != guess) {
            guess = other;
            q = match(&r->shape[guess], p, end, b->value + b->nvalue);
        }
    }
    if (LIKELY(q != NULL)) {
        b->shape[b->n++] = guess;
        b->nvalue += r->shape[guess].nvalue;
        r->shape[r->last[0]].next = guess;
        r->last[1] = r->last[0];
        r->last[0] = guess;
        r->guess[slot] = guess;
    }
    return q;
}

/* Pass over what is no event. 0 or READ_MORE. */
static int skip_garbage(struct event_reader *r, const char **at, const char *end, bool last)
{
    const char *stop = horizon(*at, end, last), *next;

    if (!stop)
        return READ_MORE;
    next = event_resync(*at + 1, stop);
    note_skipped(&r->batch, (size_t)(next - *at));
    if (next == end)
        r->closed = has_closing(*at, end);
    *at = next;
    return 0;
}

int event_reader_run(struct event_reader *r, const char **at, const char *limit, const char *end,
                     bool last)
{
    struct event_batch *b = &r->batch;

    while (b->n < r->batch_max) {
        const char *p = *at, *q;
        int rc = 0;

        /* Room for one more, whatever it is. */
        if (UNLIKELY(b->n == b->cap || b->value_cap - b->nvalue < 2 * EVENT_HOLES_MAX)) {
            if (batch_add(r, 0))
                return OPM_ENOMEM;
            b->n--;
        }
        if (LIKELY(r->after_event && *p == ',' && p < end)) { /* and a little white space */
            for (p++; is_blank(*p); p++)
                ;
            if (LIKELY(*p == '{' && p < end)) {
                r->after_event = false;
                *at = p;
            }
        }
        if (p >= end)
            return READ_MORE;
        if (r->after_event || is_blank(**at) || **at == ',' || **at == ']') {
            rc = to_next(r, at, end);
            if (rc)
                return rc;
        }
        p = *at;
        if (p >= limit)
            break;
        q = *p == '{' ? read_guessed(r, p, end) : NULL;
        if (LIKELY(q != NULL)) {
            *at = q;
            r->after_event = true;
        } else if (*p == '{') {
            size_t slot = guess_slot(r->last);
            uint64_t skipped = b->skipped;

            rc = read_event(r, at, end, last);
            if (rc)
                return rc;
            r->guess[slot] = r->last[0];
            r->after_event = b->skipped == skipped; /* a comma is skipped with the rest */
            if (UNLIKELY(event_reader_full(r)) && r->batch_max != SIZE_MAX)
                break; /* its shapes are needed until the batch is taken */
        } else {
            rc = skip_garbage(r, at, end, last);
            if (rc)
                return rc;
        }
    }
    return READ_LIMIT;
}
