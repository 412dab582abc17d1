/* record_files.c -- where a recording goes, and where the hooks are; see record.h. */
#include "launch/record.h"

#include "base/buf.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOOK_FILE "opmeter/hook/sitecustomize.py"
#define CUDA_LIBRARY "libopmeter-cuda.so"
#define LLAMA_LIBRARY "libopmeter-llama.so"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The word that people know the program by: the script or module of an interpreter of Python, else
 * the program itself. */
static const char *program_word(char *const *argv)
{
    if (strncmp(base_name(argv[0]), "python", 6) != 0)
        return argv[0];
    for (char *const *arg = argv + 1; *arg; arg++) {
        if (strcmp(*arg, "-m") == 0 && arg[1])
            return arg[1];
        if (strcmp(*arg, "-c") == 0)
            break;
        if (strcmp(*arg, "-W") == 0 || strcmp(*arg, "-X") == 0)
            arg += arg[1] != NULL;
        else if (**arg != '-')
            return *arg;
    }
    return argv[0];
}

static void program_label(char *const *argv, char *out, size_t size)
{
    char *dot;

    snprintf(out, size, "%s", base_name(program_word(argv)));
    dot = strrchr(out, '.');
    if (dot && dot != out && strcmp(dot, ".py") == 0)
        *dot = '\0';
    for (char *c = out; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '%')
            *c = '_';
    if (!*out)
        snprintf(out, size, "program");
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* A second recording in the same second takes the next free name. */
static int default_output(char *const *argv, int64_t rank, struct buf *b, opm_error *err)
{
    char label[128], when[32], of_rank[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    int rc = folder_make(FOLDER_RESULTS, err);

    if (rc)
        return rc;
    program_label(argv, label, sizeof(label));
    if (!localtime_r(&now, &tm) || !strftime(when, sizeof(when), ENVIRONMENT_TIME, &tm))
        snprintf(when, sizeof(when), "%lld", (long long)now);
    if (rank >= 0)
        snprintf(of_rank, sizeof(of_rank), "_rank%" PRId64, rank);
    for (int k = 0; k == 0 || (!b->failed && k < 10000 && exists(buf_str(b))); k++) {
        buf_clear(b);
        buf_addf(b, FOLDER_RESULTS "/%s_%s%s", label, when, of_rank);
        if (k)
            buf_addf(b, "_%d", k);
        buf_adds(b, ".opm");
    }
    return 0;
}

/* %p and %r filled in; a rank that the name has no place for goes before the extension. */
static void expand_output(const char *wanted, int64_t rank, struct buf *b)
{
    const char *slash = strrchr(wanted, '/'), *dot = strrchr(wanted, '.');
    const char *stem_end = dot && (!slash || dot > slash + 1) ? dot : wanted + strlen(wanted);
    bool placed = rank < 0 || strstr(wanted, "%r");

    for (const char *c = wanted;; c++) {
        if (c == stem_end && !placed)
            buf_addf(b, "_rank%" PRId64, rank);
        if (!*c)
            break;
        if (c[0] == '%' && (c[1] == 'p' || c[1] == 'r')) {
            buf_addf(b, "%" PRId64, *++c == 'p' ? (int64_t)getpid() : MAX(rank, 0));
            continue;
        }
        buf_addc(b, *c);
    }
}

int record_output(const char *wanted, char *const *argv, char out[FOLDER_PATH_MAX], opm_error *err)
{
    int64_t rank = environment_rank();
    struct buf b = { 0 };
    int rc = 0;

    if (wanted)
        expand_output(wanted, rank, &b);
    else
        rc = default_output(argv, rank, &b, err);
    if (rc == 0 && b.failed)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    else if (rc == 0 && b.len >= FOLDER_PATH_MAX - 32)
        rc = opm__fail(err, OPM_EINVAL, "%s: the path is too long", buf_str(&b));
    if (rc == 0)
        snprintf(out, FOLDER_PATH_MAX, "%s", buf_str(&b));
    buf_release(&b);
    return rc;
}

bool record_parts_remove(const char *parts)
{
    DIR *dir = opendir(parts);
    struct dirent *e;
    int failed = 0;

    if (!dir)
        return false;
    for (;;) {
        e = readdir(dir);
        if (!e)
            break;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), e->d_name, 0) < 0)
            failed = errno;
    }
    closedir(dir);
    if (rmdir(parts) < 0 && !failed)
        failed = errno;
    errno = failed;
    return !failed;
}

/* -- hooks -- */

/* The folder that the opmeter command lies in. */
static bool own_folder(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);

    if (n <= 0)
        return false;
    out[n] = '\0';
    *strrchr(out, '/') = '\0';
    return true;
}

/* The first that matches FOLDER/PATTERN, as a real path. */
static bool find_beside(const char *folder, const char *pattern, char *out, size_t size)
{
    char path[PATH_MAX], real[PATH_MAX];
    glob_t found = { 0 };
    bool ok;

    if (snprintf(path, sizeof(path), "%s/%s", folder, pattern) >= (int)sizeof(path))
        return false;
    ok = glob(path, 0, NULL, &found) == 0 && found.gl_pathc && realpath(found.gl_pathv[0], real) &&
         strlen(real) < size;
    if (ok)
        snprintf(out, size, "%s", real);
    globfree(&found);
    return ok;
}

/* Ask the interpreter, which knows virtual environments and user installations. */
static bool ask_python(const char *python, char *out, size_t size)
{
    static const char script[] =
        "import importlib.util as u; s = u.find_spec(\"opmeter\"); print(s.origin if s else \"\")";
    struct buf command = { 0 };
    FILE *pipe;
    char *slash;
    bool ok;

    if (strchr(python, '\''))
        return false;
    /* Not as part of this recording, and whatever it says is not for the user. */
    buf_addf(&command, "OPMETER_OUTPUT= '%s' -c '%s' 2>/dev/null </dev/null", python, script);
    pipe = command.failed ? NULL : popen(buf_str(&command), "re");
    buf_release(&command);
    if (!pipe)
        return false;
    ok = fgets(out, (int)size, pipe) != NULL;
    pclose(pipe);
    slash = ok ? strrchr(out, '/') : NULL; /* .../opmeter/__init__.py */
    if (!slash)
        return false;
    snprintf(slash, size - (size_t)(slash - out), "/hook");
    return find_beside(out, "sitecustomize.py", out, size);
}

bool record_find_python(const char *python, char *out, size_t size)
{
    static const char *const places[] = {
        "python/" HOOK_FILE, /* the build folder */
        "../lib/opmeter/python/" HOOK_FILE,
        "../lib/python3/dist-packages/" HOOK_FILE,
        "../lib/python3*/dist-packages/" HOOK_FILE,
        "../lib/python3*/site-packages/" HOOK_FILE,
    };
    char folder[PATH_MAX];
    bool ok = false;

    if (own_folder(folder, sizeof(folder)))
        for (size_t i = 0; i < ARRAY_SIZE(places) && !ok; i++)
            ok = find_beside(folder, places[i], out, size);
    if (!ok && python)
        ok = ask_python(python, out, size);
    if (ok)
        *strrchr(out, '/') = '\0';
    return ok;
}

static bool find_library(const char *const *places, char *out, size_t size)
{
    char folder[PATH_MAX];

    if (own_folder(folder, sizeof(folder)))
        for (; *places; places++)
            if (find_beside(folder, *places, out, size))
                return true;
    return false;
}

/* Beside the program, installed, in Debian's package, in the Python package. */
#define LIBRARY_PLACES(name)                                        \
    (const char *const[])                                           \
    {                                                               \
        name, "../" OPMETER_LIBDIR "/" name, "../lib/" name,        \
            "../" OPMETER_LIBDIR "/opmeter/" name, "../" name, NULL \
    }

bool record_find_cuda(char *out, size_t size)
{
    return find_library(LIBRARY_PLACES(CUDA_LIBRARY), out, size);
}

bool record_find_llama(char *out, size_t size)
{
    return find_library(LIBRARY_PLACES(LLAMA_LIBRARY), out, size);
}
