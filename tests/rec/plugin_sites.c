/* plugin_sites.c -- a plugin that records into whatever its program records: the sites are here. */
#include <opmeter/opmeter.h>

OPM_API opm_span plugin_begin(void);
OPM_API void plugin_work(int n);

opm_span plugin_begin(void)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, "plugin", "left open by plugin");

    return opm_begin(&site);
}

void plugin_work(int n)
{
    for (int i = 0; i < n; i++)
        OPM_SPAN_CAT(OPM_FRAMEWORK, "plugin", "plugin work")
        {
            OPM_COUNTER("plugin counter", i);
        }
}
