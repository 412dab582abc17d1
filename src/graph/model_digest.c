/* model_digest.c -- see model_digest.h. */
#include "graph/model_digest.h"

#include "graph/model_int.h"

/* A piece at a time, so that what was brought into memory for it does not stay. */
static void digest_mapped(const struct model *m, struct digest *d, const uint8_t *data, size_t len)
{
    static const size_t piece = (size_t)4 << 20;

    for (size_t at = 0; at < len; at += piece) {
        size_t n = MIN(piece, len - at);

        digest_add(d, data + at, n);
        model_forget(m, data + at, n);
    }
}

bool model_digest(const struct model *m, char out[DIGEST_ROOM])
{
    const struct model_impl *impl = m->impl;
    struct digest d = DIGEST_INIT;

    digest_add(&d, impl->made.data ? impl->made.data : "", impl->made.len);
    digest_mapped(m, &d, impl->file.data, impl->file.data ? impl->file.len : 0);
    for (size_t i = 0; i < impl->nmap; i++)
        digest_mapped(m, &d, impl->map[i].data, impl->map[i].len);
    digest_text(&d, out);
    return impl->made.len || impl->file.data;
}
