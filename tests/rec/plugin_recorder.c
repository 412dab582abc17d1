/* plugin_recorder.c -- a plugin with a recorder of its own inside: libopmeter.a is linked into it.
 */
#include <opmeter/opmeter.h>

OPM_API int plugin_start(const char *path);
OPM_API int plugin_stop(void);
OPM_API void plugin_work(int n);

int plugin_start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = path;
    return opm_start(&options, NULL);
}

int plugin_stop(void)
{
    return opm_stop(NULL);
}

void plugin_work(int n)
{
    for (int i = 0; i < n; i++)
        OPM_SPAN(OPM_APP, "plugin work")
        {
            OPM_COUNTER("plugin counter", i);
        }
}
