/* click_text.c -- see click_text.h. */
#include "catalog/click_text.h"

#include "base/alloc.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAID_MAX 300

struct clickrows {
    struct buf body;
    char *who;
    char *at, *end; /* of what was not read yet */
    size_t row;
    int ncol;
    enum opm_type *type;
    char **name, **cell;
    size_t *len;
};

/* -- exceptions -- */

/* Names of errors are of capitals: (UNKNOWN_TABLE). */
static size_t without_name(const char *text, size_t len)
{
    size_t at = len;

    if (len == 0 || text[len - 1] != ')')
        return len;
    for (at--; at && ((text[at - 1] >= 'A' && text[at - 1] <= 'Z') || text[at - 1] == '_'); at--)
        ;
    return at > 1 && at < len - 1 && text[at - 1] == '(' && text[at - 2] == ' ' ? at - 2 : len;
}

/* "Code: 60, e.displayText() = DB::Exception: Table t doesn't exist., e.what() = DB::Exception" is
 * of 18.16; later "e.what()" became "(version 20.3.8 (official build))"; since 21.10 it is
 * "Code: 60. DB::Exception: Table t doesn't exist. (UNKNOWN_TABLE) (version 23.8.1)". */
struct click_exception click_exception_read(const char *body)
{
    struct click_exception e = { 0 };
    const char *text, *stop;

    if (strncmp(body, "Code: ", 6) != 0)
        return e;
    e.code = (int)MIN(strtoul(body + 6, NULL, 10), 99999UL);
    text = strstr(body, "Exception: "); /* DB::Exception, DB::ErrnoException, Poco::Exception */
    e.text = text ? text + strlen("Exception: ") : body;
    e.len = strcspn(e.text, "\r\n");
    stop = strstr(e.text, ", e.what()");
    if (stop && (size_t)(stop - e.text) < e.len)
        e.len = (size_t)(stop - e.text);
    stop = strstr(e.text, " (version ");
    if (stop && (size_t)(stop - e.text) < e.len)
        e.len = (size_t)(stop - e.text);
    e.len = without_name(e.text, e.len);
    while (e.len && (e.text[e.len - 1] == '.' || e.text[e.len - 1] == ' '))
        e.len--;
    return e;
}

/* -- rows -- */

/* A cell of TabSeparated, unescaped in place; *is_null for \N. The line that it is in has an end.
 */
static char *take_cell(struct clickrows *r, size_t *len, bool *is_null)
{
    static const char from[] = "btnrf0'\\", to[] = "\b\t\n\r\f\0'\\";
    char *start = r->at, *read = start, *write = start;

    *is_null = read[0] == '\\' && read[1] == 'N';
    while (*read != '\t' && *read != '\n') {
        if (*read == '\\' && read[1] != '\t' && read[1] != '\n') {
            const char *known = strchr(from, read[1]);

            *write++ = read[1] && known ? to[known - from] : read[1];
            read += 2;
        } else {
            *write++ = *read++;
        }
    }
    *len = (size_t)(write - start);
    r->at = read + 1;
    *write = '\0'; /* where the tab was, or before */
    return start;
}

static enum opm_type type_of(const char *text)
{
    static const char *const around[] = { "Nullable(", "LowCardinality(" };

    for (size_t i = 0; i < ARRAY_SIZE(around); i++)
        if (strncmp(text, around[i], strlen(around[i])) == 0)
            return type_of(text + strlen(around[i]));
    if (strncmp(text, "Int", 3) == 0 || strncmp(text, "UInt", 4) == 0)
        return OPM_TYPE_INT;
    return strncmp(text, "Float", 5) == 0 || strncmp(text, "Decimal", 7) == 0 ? OPM_TYPE_REAL
                                                                              : OPM_TYPE_TEXT;
}

/* A server that fails while it sends writes its exception where a row would be; a proxy may cut an
 * answer off anywhere, or answer itself. */
static int say_broken(struct clickrows *r, opm_error *err)
{
    struct click_exception e = { 0 };

    for (const char *at = strstr(r->at, "Code: "); at && !e.code; at = strstr(at + 1, "Code: "))
        e = click_exception_read(at);
    r->at = r->end;
    if (e.code)
        return opm__fail(err, OPM_EIO, "%s: %.*s (after %zu rows)", r->who,
                         (int)MIN(e.len, (size_t)SAID_MAX), e.text, r->row);
    return opm__fail(err, OPM_EFORMAT,
                     "%s: after %zu rows the answer breaks off, or something else than ClickHouse "
                     "gives it",
                     r->who, r->row);
}

/* Cells of the next line; 0: there is none. */
static int count_cells(const struct clickrows *r)
{
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    int n = 1;

    for (const char *at = r->at; stop && at < stop; at++)
        n += *at == '\t';
    return stop ? n : 0;
}

/* Names and types stand in front. */
static int read_head(struct clickrows *r, opm_error *err)
{
    bool is_null;

    r->ncol = count_cells(r);
    if (r->ncol == 0)
        return say_broken(r, err);
    r->name = mem_calloc((size_t)r->ncol, sizeof(*r->name));
    r->cell = mem_calloc((size_t)r->ncol, sizeof(*r->cell));
    r->len = mem_calloc((size_t)r->ncol, sizeof(*r->len));
    r->type = mem_calloc((size_t)r->ncol, sizeof(*r->type));
    if (!r->name || !r->cell || !r->len || !r->type)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    for (int i = 0; i < r->ncol; i++)
        r->name[i] = take_cell(r, &r->len[i], &is_null);
    if (count_cells(r) != r->ncol)
        return say_broken(r, err);
    for (int i = 0; i < r->ncol; i++)
        r->type[i] = type_of(take_cell(r, &r->len[i], &is_null));
    return 0;
}

int clickrows_open(struct clickrows **out, struct buf *body, const char *who, opm_error *err)
{
    struct clickrows *r = mem_calloc(1, sizeof(*r));
    char *own = mem_strdup(who);
    int rc;

    if (!r || !own) {
        mem_free(r);
        mem_free(own);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    r->who = own;
    r->body = *body;
    *body = (struct buf){ 0 };
    r->at = r->body.data;
    r->end = r->at + r->body.len;
    rc = r->body.len ? read_head(r, err)
                     : opm__fail(err, OPM_EFORMAT, "the statement gives no rows: ask with SELECT");
    if (rc < 0)
        clickrows_close(r);
    else
        *out = r;
    return rc;
}

/* What stands in a column of numbers; *known: it is not nan or inf. */
static bool is_number(const char *text, size_t len, enum opm_type type, bool *known)
{
    char *end;

    *known = true;
    if (strlen(text) != len)
        return false;
    if (type == OPM_TYPE_INT)
        return text[text[0] == '-'] &&
               text[(text[0] == '-') + strspn(text + (text[0] == '-'), "0123456789")] == '\0';
    *known = isfinite(strtod(text, &end));
    return end > text && *end == '\0';
}

int clickrows_next(struct clickrows *r, opm_error *err)
{
    /* WITH TOTALS puts an empty line before its row. */
    while (r->ncol > 1 && r->at < r->end && *r->at == '\n')
        r->at++;
    if (r->at >= r->end)
        return 0;
    if (count_cells(r) != r->ncol)
        return say_broken(r, err);
    for (int i = 0; i < r->ncol; i++) {
        bool is_null, known = true;
        char *text = take_cell(r, &r->len[i], &is_null);

        if (!is_null && r->type[i] != OPM_TYPE_TEXT &&
            !is_number(text, r->len[i], r->type[i], &known))
            return opm__fail(err, OPM_EFORMAT,
                             "%s: '%.60s' in row %zu of column '%.60s' is no number", r->who, text,
                             r->row + 1, r->name[i]);
        /* What is not finite is not known, as in a file. */
        r->cell[i] = is_null || !known ? NULL : text;
    }
    r->row++;
    return 1;
}

int clickrows_columns(const struct clickrows *r)
{
    return r->ncol;
}

const char *clickrows_name(const struct clickrows *r, int col)
{
    return r->name[col];
}

/* An answer may have fewer columns than were asked for: who answers is not ours. */
static const char *cell_at(const struct clickrows *r, int col)
{
    return col < r->ncol ? r->cell[col] : NULL;
}

enum opm_type clickrows_type(const struct clickrows *r, int col)
{
    return cell_at(r, col) ? r->type[col] : OPM_TYPE_NULL;
}

const char *clickrows_text(const struct clickrows *r, int col, size_t *len)
{
    const char *text = cell_at(r, col);

    if (len)
        *len = text ? r->len[col] : 0;
    return text;
}

void clickrows_close(struct clickrows *r)
{
    if (!r)
        return;
    buf_release(&r->body);
    mem_free(r->who);
    mem_free(r->name);
    mem_free(r->cell);
    mem_free(r->len);
    mem_free(r->type);
    mem_free(r);
}
