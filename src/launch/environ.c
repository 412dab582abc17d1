/* environ.c -- see environ.h. */
#include "launch/environ.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <string.h>

extern char **environ;

static bool is_named(const char *item, const char *name)
{
    size_t len = strlen(name);

    return strncmp(item, name, len) == 0 && item[len] == '=';
}

/* Takes over item, which may be NULL. */
static void add(struct environ_copy *e, char *item)
{
    if (e->failed || !item || !GROW(e->item, e->cap, e->n + 2)) {
        e->failed = true;
        mem_free(item);
        return;
    }
    e->item[e->n++] = item;
    e->item[e->n] = NULL;
}

void environ_copy_init(struct environ_copy *e)
{
    *e = (struct environ_copy){ 0 };
    for (char **item = environ; item && *item; item++)
        add(e, mem_strdup(*item));
}

void environ_copy_set(struct environ_copy *e, const char *name, const char *value)
{
    struct buf item = { 0 };
    size_t n = 0;

    for (size_t i = 0; i < e->n; i++) {
        if (is_named(e->item[i], name))
            mem_free(e->item[i]);
        else
            e->item[n++] = e->item[i];
    }
    e->n = n;
    buf_addf(&item, "%s=%s", name, value);
    add(e, item.failed ? NULL : mem_strdup(buf_str(&item)));
    buf_release(&item);
}

void environ_copy_prepend(struct environ_copy *e, const char *name, const char *value)
{
    struct buf list = { 0 };

    buf_adds(&list, value);
    for (size_t i = 0; i < e->n; i++)
        if (is_named(e->item[i], name) && e->item[i][strlen(name) + 1])
            buf_addf(&list, ":%s", e->item[i] + strlen(name) + 1);
    e->failed |= list.failed;
    environ_copy_set(e, name, buf_str(&list));
    buf_release(&list);
}

void environ_copy_release(struct environ_copy *e)
{
    for (size_t i = 0; i < e->n; i++)
        mem_free(e->item[i]);
    mem_free(e->item);
    *e = (struct environ_copy){ 0 };
}
