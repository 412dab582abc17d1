/* formats.c -- what can be read and written, and which version this is; see opmeter_trace.h. */
#include "export/export.h"
#include "import/import.h"

#include <opmeter/opmeter_trace.h>
#include <pthread.h>

#define FORMATS_MAX 63

/* The public lists are the internal ones in public clothes, made on first use. */
static opm_format import_list[FORMATS_MAX + 1], export_list[FORMATS_MAX + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_lists(void)
{
    size_t n = 0;

    for (const struct importer *i = importers; i->name; i++, n++) {
        assert(n < FORMATS_MAX);
        import_list[n] = (opm_format){ i->name, i->extension, i->doc };
    }
    n = 0;
    for (const struct exporter *e = exporters; e->name; e++, n++) {
        assert(n < FORMATS_MAX);
        export_list[n] = (opm_format){ e->name, e->extension, e->doc };
    }
}

const opm_format *opm_export_formats(void)
{
    pthread_once(&once, make_lists);
    return export_list;
}

const opm_format *opm_import_formats(void)
{
    pthread_once(&once, make_lists);
    return import_list;
}

const char *opm_trace_version(void)
{
    return OPMETER_VERSION;
}
