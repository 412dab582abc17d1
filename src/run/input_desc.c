/* input_desc.c -- read descriptions of inputs; see input.h. */
#include "run/input.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LITERAL_MAX ((size_t)1 << 24) /* elements */

static int no_memory(opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM, "out of memory while reading the inputs");
}

static struct input_item *add_item(struct input_items *l, const char *name, const char *origin)
{
    if (!GROW(l->item, l->cap, l->n + 1))
        return NULL;
    l->item[l->n] = (struct input_item){ .name = name, .origin = origin };
    return &l->item[l->n++];
}

static int map_file(struct input_items *l, const char *path, struct io_map **out, opm_error *err)
{
    int rc;

    if (!GROW(l->map, l->map_cap, l->nmap + 1))
        return no_memory(err);
    rc = io_map(&l->map[l->nmap], path, 0, err);
    if (!rc)
        *out = &l->map[l->nmap++];
    return rc;
}

static int add_npy(struct input_items *l, const char *name, const char *path, opm_error *err)
{
    struct input_item *it = add_item(l, name, path);
    struct io_map *map;
    int rc = it ? map_file(l, path, &map, err) : no_memory(err);

    return rc ? rc : npy_parse(&it->data, map->data, map->len, path, &l->arena, err);
}

static int add_npz(struct input_items *l, const char *name, const char *path, opm_error *err)
{
    const struct npz *z;
    int rc;

    if (*name)
        return opm__fail(err, OPM_EINVAL,
                         "input '%s': an .npz names its inputs itself; give %s without a name",
                         name, path);
    if (!GROW(l->npz, l->npz_cap, l->nnpz + 1))
        return no_memory(err);
    rc = npz_open(&l->npz[l->nnpz], path, err);
    if (rc)
        return rc;
    z = &l->npz[l->nnpz++];
    for (size_t i = 0; i < z->n; i++) {
        const char *member = z->array[i].name;
        struct input_item *it;

        if (strncmp(member, "out_", 4) == 0)
            continue; /* a reference for --check */
        it = add_item(l, strncmp(member, "in_", 3) == 0 ? member + 3 : member, path);
        if (!it)
            return no_memory(err);
        it->data = z->array[i];
    }
    return 0;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), nt = strlen(tail);

    return n > nt && strcmp(s + n - nt, tail) == 0;
}

static bool is_image(const char *path)
{
    static const char *const tails[] = { ".png", ".jpg",  ".jpeg", ".webp", ".tif", ".tiff",
                                         ".bmp", ".jp2",  ".j2k",  ".ppm",  ".pgm", ".pbm",
                                         ".pnm", ".JPEG", ".PNG",  ".JPG",  ".TIF", ".BMP" };

    for (size_t i = 0; i < ARRAY_SIZE(tails); i++)
        if (ends_with(path, tails[i]))
            return true;
    return false;
}

/* The file's name of "FILE.png,OPTION,..", and the options; NULL if it is none. */
static char *image_path(struct input_items *l, const char *value, const char **options)
{
    size_t len = strcspn(value, ",");
    char *path = arena_strndup(&l->arena, value, len);

    *options = value + len + (value[len] == ',');
    return path && is_image(path) ? path : NULL;
}

static int add_image(struct input_items *l, const char *name, const char *path, const char *options,
                     opm_error *err)
{
    struct input_item *it = add_item(l, name, path);
    struct io_map *map;
    struct image im = { 0 };
    int rc = it ? image_form_parse(&it->form, options, err) : no_memory(err);

    if (!rc)
        rc = map_file(l, path, &map, err);
    if (!rc)
        rc = image_decode(&im, &l->arena, path, map->data, map->len, err);
    if (rc)
        return rc;
    it->image = true;
    it->data = (struct tensor){ .name = path,
                                .type = TENSOR_U8,
                                .shape = { 4, { 1, im.height, im.width, im.channels } },
                                .count = (int64_t)im.width * im.height * im.channels,
                                .data = im.pixel };
    it->data.bytes = (size_t)it->data.count;
    return 0;
}

static bool parse_shape(const char *s, const char *end, const char *between, struct shape *out)
{
    out->rank = 0;
    if (s == end)
        return true; /* {}: a scalar */
    while (s < end) {
        char *after;
        long long v;

        while (s < end && *s == ' ')
            s++;
        errno = 0;
        v = isdigit((unsigned char)*s) ? strtoll(s, &after, 10) : -1;
        if (v < 0 || errno || after > end || out->rank == SHAPE_RANK_MAX)
            return false;
        out->dim[out->rank++] = v;
        for (s = after; s < end && *s == ' ';)
            s++;
        if (s < end && !strchr(between, *s++))
            return false;
        if (s == end && strchr(between, s[-1]))
            return false;
    }
    return true;
}

/* Nested lists of numbers or of strings, all of one length on each level. */
struct literal {
    struct shape shape;
    int64_t filled[SHAPE_RANK_MAX]; /* elements so far in the list that is open on each level */
    double *value;
    struct tensor_string *text; /* instead; each in the arena */
    size_t n, cap, text_cap;
    bool no_memory;
};

/* The string just read, in memory of the arena; false when out of it. */
static bool keep_text(struct json_reader *r, struct arena *a, struct tensor_string *out)
{
    struct buf b = { 0 };

    json_read_text(r, &b);
    *out = (struct tensor_string){ b.failed ? NULL : arena_strndup(a, buf_str(&b), b.len), b.len };
    buf_release(&b);
    return out->s != NULL;
}

/* Numbers, of which true is 1, or strings. */
static bool is_element(enum json_token t)
{
    return t == JSON_NUMBER || t == JSON_TRUE || t == JSON_FALSE || t == JSON_STRING;
}

/* The number or string just read; all are of the kind of the first. */
static bool add_element(struct literal *lit, struct json_reader *r, struct arena *a)
{
    bool number = r->token != JSON_STRING;

    if (lit->n == LITERAL_MAX || (lit->n && number != (lit->value != NULL)))
        return false;
    lit->no_memory = number ? !GROW(lit->value, lit->cap, lit->n + 1)
                            : !GROW(lit->text, lit->text_cap, lit->n + 1) ||
                                  !keep_text(r, a, &lit->text[lit->n]);
    if (lit->no_memory)
        return false;
    if (r->token == JSON_TRUE || r->token == JSON_FALSE)
        lit->value[lit->n] = r->token == JSON_TRUE;
    else if (number && !json_read_real(r, &lit->value[lit->n]))
        return false;
    lit->n++;
    return true;
}

static bool read_literal(struct literal *lit, const char *text, struct arena *a)
{
    struct json_reader r = json_read_of(text, strlen(text));
    int deepest = -1, depth = 0;
    enum json_token t;

    memset(lit->shape.dim, 0xff, sizeof(lit->shape.dim)); /* -1: not known yet */
    for (;;) {
        t = json_read_next(&r);
        if (t == JSON_DONE)
            break;
        if (t == JSON_ARRAY) {
            if (depth == SHAPE_RANK_MAX || (deepest >= 0 && depth >= deepest))
                return false;
            if (depth)
                lit->filled[depth - 1]++;
            lit->filled[depth++] = 0;
        } else if (t == JSON_ARRAY_END) {
            int64_t *dim = &lit->shape.dim[--depth];

            if (deepest < 0)
                deepest = depth + 1; /* an empty list */
            if (*dim < 0)
                *dim = lit->filled[depth];
            if (*dim != lit->filled[depth])
                return false;
        } else if (is_element(t)) {
            if (deepest < 0)
                deepest = depth;
            if (depth != deepest || !add_element(lit, &r, a))
                return false;
            if (depth)
                lit->filled[depth - 1]++;
        } else {
            return false;
        }
    }
    lit->shape.rank = MAX(deepest, 0);
    return true;
}

/* What was read, as the data of a tensor; false when out of memory. */
static bool give_literal(const struct literal *lit, struct arena *a, struct tensor *t)
{
    size_t size = lit->text ? sizeof(*lit->text) : sizeof(*lit->value);
    void *copy = arena_alloc(a, (lit->n + 1) * size);

    if (!copy)
        return false;
    if (lit->n)
        memcpy(copy, lit->text ? (const void *)lit->text : (const void *)lit->value, lit->n * size);
    t->type = lit->text ? TENSOR_STRING : TENSOR_F64;
    t->count = (int64_t)lit->n;
    t->data = copy;
    t->bytes = lit->text ? 0 : lit->n * size;
    return true;
}

static void literal_release(struct literal *lit)
{
    mem_free(lit->value);
    mem_free(lit->text);
}

static int add_literal(struct input_items *l, const char *name, const char *text, opm_error *err)
{
    struct input_item *it = add_item(l, name, "the command line");
    struct literal lit = { 0 };
    bool read, given = false;

    if (!it)
        return no_memory(err);
    read = read_literal(&lit, text, &l->arena);
    it->any_type = true;
    it->data = (struct tensor){ .name = name, .shape = lit.shape };
    if (read)
        given = give_literal(&lit, &l->arena, &it->data);
    literal_release(&lit);
    if (given)
        return 0;
    if (read || lit.no_memory)
        return no_memory(err);
    return opm__fail(err, OPM_EINVAL,
                     "--input: '%s' is neither a file (.npy, .npz, .json, an image), a "
                     "shape such as 1x3x224x224, numbers such as [[1,2],[3,4]] or [true], nor "
                     "strings such as [\"a\",\"b\"]",
                     text);
}

/* The array of numbers or strings that r stands before. */
static bool read_raw(struct json_reader *r, struct arena *a, struct tensor *t)
{
    struct literal lit = { 0 };
    bool ok = json_read_next(r) == JSON_ARRAY;

    while (ok && json_read_next(r) != JSON_ARRAY_END)
        ok = is_element(r->token) && add_element(&lit, r, a);
    if (ok)
        ok = give_literal(&lit, a, t);
    literal_release(&lit);
    return ok;
}

static bool read_shape(struct json_reader *r, struct shape *s)
{
    s->rank = 0;
    if (json_read_next(r) != JSON_ARRAY)
        return false;
    while (json_read_next(r) == JSON_NUMBER)
        if (s->rank == SHAPE_RANK_MAX || !json_read_int(r, &s->dim[s->rank++]))
            return false;
    return r->token == JSON_ARRAY_END;
}

/* MegEngine's {"NAME": {"shape": [..], "type": "float32", "raw": [..]}}. */
static int add_json(struct input_items *l, const char *path, opm_error *err)
{
    struct io_map *map;
    struct json_reader r;
    int rc = map_file(l, path, &map, err);

    if (rc)
        return rc;
    r = json_read_of(map->data, map->len);
    if (json_read_next(&r) == JSON_OBJECT) {
        while (json_read_next(&r) == JSON_KEY) {
            struct buf text = { 0 };
            char *name;
            struct input_item *it;
            bool shape = false, raw = false;

            json_read_text(&r, &text);
            name = text.failed ? NULL : arena_strndup(&l->arena, buf_str(&text), text.len);
            buf_release(&text);
            it = name ? add_item(l, name, path) : NULL;
            if (!it)
                return no_memory(err);
            it->any_type = true;
            if (json_read_next(&r) != JSON_OBJECT)
                break;
            while (json_read_next(&r) == JSON_KEY) {
                if (json_read_is(&r, "shape"))
                    shape = read_shape(&r, &it->data.shape);
                else if (json_read_is(&r, "raw"))
                    raw = read_raw(&r, &l->arena, &it->data);
                else
                    json_read_skip(&r);
            }
            if (!shape || !raw || shape_count(&it->data.shape) != it->data.count)
                return opm__fail(err, OPM_EFORMAT,
                                 "%s: '%s' needs a shape and as many numbers or strings in raw",
                                 path, name);
        }
    }
    if (r.token != JSON_OBJECT_END || json_read_next(&r) != JSON_DONE)
        return opm__fail(err, OPM_EFORMAT,
                         "%s: not {\"NAME\": {\"shape\": [..], \"raw\": [..]}} (offset %td)", path,
                         r.at - r.start);
    return 0;
}

static bool is_by_form(const char *s) /* 1x3x224x224 */
{
    return isdigit((unsigned char)*s) && strchr(s, 'x') && strspn(s, "0123456789x") == strlen(s);
}

static int add_value(struct input_items *l, const char *name, const char *value, opm_error *err)
{
    size_t len = strlen(value);
    bool braces = len >= 2 && value[0] == '{' && value[len - 1] == '}';
    const char *path, *options;
    struct input_item *it;

    if (ends_with(value, ".npy"))
        return add_npy(l, name, value, err);
    if (ends_with(value, ".npz"))
        return add_npz(l, name, value, err);
    path = image_path(l, value, &options);
    if (path)
        return add_image(l, name, path, options, err);
    if (ends_with(value, ".json"))
        return add_json(l, value, err);
    if (!braces && !is_by_form(value))
        return add_literal(l, name, value, err);
    it = add_item(l, name, "--input");
    if (!it)
        return no_memory(err);
    if (braces ? !parse_shape(value + 1, value + len - 1, ",", &it->data.shape)
               : !parse_shape(value, value + len, "x", &it->data.shape))
        return opm__fail(err, OPM_EINVAL, "--input: '%s' is no shape", value);
    return 0;
}

/* Up to the semicolon that ends an item; those in strings do not. */
static size_t item_length(const char *text)
{
    bool quoted = false;
    size_t i = 0;

    for (; text[i] && (quoted || text[i] != ';'); i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\' && text[i + 1])
            i++;
    }
    return i;
}

int input_items_parse(struct input_items *l, const char *text, opm_error *err)
{
    int rc = 0;

    while (!rc && *text) {
        size_t len = item_length(text);
        char *item = arena_strndup(&l->arena, text, len), *colon;

        if (!item)
            return no_memory(err);
        text += len + (text[len] == ';');
        colon = *item == '[' || *item == '"' ? NULL : strchr(item, ':');
        if (colon)
            *colon = '\0';
        if (*item || colon)
            rc = add_value(l, colon ? item : "", colon ? colon + 1 : item, err);
    }
    return rc;
}

void input_items_release(struct input_items *l)
{
    for (size_t i = 0; i < l->nnpz; i++)
        npz_close(&l->npz[i]);
    for (size_t i = 0; i < l->nmap; i++)
        io_map_release(&l->map[i]);
    mem_free(l->item);
    mem_free(l->npz);
    mem_free(l->map);
    arena_release(&l->arena);
    *l = (struct input_items){ 0 };
}
