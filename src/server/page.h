/* page.h -- the files of the web page, ui/dist, as they were when this was built. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include "base/common.h"

struct page_file {
    const char *name; /* "app.js" */
    const char *type; /* for Content-Type */
    const char *data;
    size_t len;
};

bool page_find(const char *name, struct page_file *out); /* false: there is none */

#endif
