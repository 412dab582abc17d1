/* fuzz_click_text.c -- any bytes as an answer of ClickHouse: rows or one failure that says why, and
 * numbers where it says numbers. */
#include "catalog/click_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_rows(struct clickrows *r)
{
    opm_error err = { 0 };
    int rc;

    while ((rc = clickrows_next(r, &err)) == 1) {
        for (int i = 0; i < clickrows_columns(r); i++) {
            enum opm_type type = clickrows_type(r, i);
            size_t len;
            const char *text = clickrows_text(r, i, &len);

            check((type == OPM_TYPE_NULL) == !text);
            check(!text || strlen(text) <= len);
            if (type == OPM_TYPE_INT)
                check(strspn(text, "-0123456789") == len);
        }
        check(clickrows_type(r, clickrows_columns(r)) == OPM_TYPE_NULL);
        check(!clickrows_text(r, clickrows_columns(r) + 7, NULL));
    }
    check(rc == 0 || (rc < 0 && err.code == rc && err.msg[0]));
    check(clickrows_next(r, &err) <= 0 || rc < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct buf body = { 0 };
    struct clickrows *r;
    struct click_exception e;
    opm_error err = { 0 };

    buf_add(&body, data, len);
    e = click_exception_read(buf_str(&body));
    check(e.code == 0 || (e.text && e.len <= strlen(e.text) && !memchr(e.text, '\n', e.len)));
    if (clickrows_open(&r, &body, "fuzz", &err) == 0) {
        for (int i = 0; i < clickrows_columns(r); i++)
            check(clickrows_name(r, i) != NULL);
        read_rows(r);
        clickrows_close(r);
    } else {
        check(err.code && err.msg[0]);
    }
    buf_release(&body);
    return 0;
}
