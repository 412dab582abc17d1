/* page.c -- see page.h.
 *
 * The build writes page_files.def: PAGE_FILE(number, name, path) for every file of ui/dist. */
#include "server/page.h"

#include <string.h>

#define TEXT(x) #x
#ifdef __APPLE__
#define DATA_SECTION ".section __TEXT,__const\n"
#define DATA_END ".text\n"
#define DATA_NAME(name) ".globl _" name "\n.private_extern _" name "\n_" name ":\n"
#else
#define DATA_SECTION ".section .rodata\n"
#define DATA_END ".previous\n"
#define DATA_NAME(name) ".global " name "\n.hidden " name "\n" name ":\n"
#endif
#define PAGE_FILE(n, name, path)                                                           \
    __asm__(DATA_SECTION ".balign 16\n" DATA_NAME("page_data_" TEXT(                       \
        n)) ".incbin \"" path "\"\n" DATA_NAME("page_end_" TEXT(n)) ".byte 0\n" DATA_END); \
    extern const char page_data_##n[], page_end_##n[];
#include "page_files.def"
#undef PAGE_FILE

static const struct {
    const char *extension, *type;
} types[] = {
    { ".html", "text/html; charset=utf-8" },        { ".js", "text/javascript; charset=utf-8" },
    { ".css", "text/css; charset=utf-8" },          { ".svg", "image/svg+xml" },
    { ".json", "application/json; charset=utf-8" }, { ".txt", "text/plain; charset=utf-8" },
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(types); i++)
        if (strcmp(types[i].extension, dot) == 0)
            return types[i].type;
    return "application/octet-stream";
}

bool page_find(const char *name, struct page_file *out)
{
    static const struct {
        const char *name, *data, *end;
    } files[] = {
#define PAGE_FILE(n, name, path) { name, page_data_##n, page_end_##n },
#include "page_files.def"
#undef PAGE_FILE
    };

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (strcmp(files[i].name, name) != 0)
            continue;
        *out = (struct page_file){ files[i].name, type_of(name), files[i].data,
                                   (size_t)(files[i].end - files[i].data) };
        return true;
    }
    return false;
}
