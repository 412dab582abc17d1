/* image_libs.c -- JPEG, WebP, TIFF and JPEG 2000 by libraries that are loaded for the file at hand,
 * so that nothing depends on them. What is declared of them here is their published interface. */
#include "base/image_int.h"

#include "base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* What a reader wants of its library; symbols end with one that has no name. */
struct library {
    const char *what, *file, *older, *package;
    struct symbol {
        const char *name;
        void *to; /* a pointer to a function */
    } symbol[20];
};

/* The library with all symbols set; NULL, and the error, if there is none that has them. */
static void *load(const struct image_job *j, const struct library *l)
{
    void *lib = dlopen(l->file, RTLD_NOW | RTLD_LOCAL), *found;
    bool all;

    if (!lib && l->older)
        lib = dlopen(l->older, RTLD_NOW | RTLD_LOCAL);
    all = lib;
    for (const struct symbol *s = l->symbol; all && s->name; s++) {
        found = dlsym(lib, s->name);
        memcpy(s->to, &found, sizeof(found));
        all = found;
    }
    if (all)
        return lib;
    if (lib)
        dlclose(lib);
    opm__fail(j->err, OPM_EUNSUPPORTED,
              "%s: reading %s needs %s, which is not installed (Debian: apt-get install %s); PNG, "
              "BMP and PNM need no library",
              j->path, l->what, l->file, l->package);
    return NULL;
}

/* -- JPEG -- */

int image_read_jpeg(const struct image_job *j)
{
    void *(*start)(void);
    int (*header)(void *, const void *, unsigned long, int *, int *, int *, int *);
    int (*decode)(void *, const void *, unsigned long, uint8_t *, int, int, int, int, int);
    char *(*why)(void *);
    int (*end)(void *);
    const struct library wanted = { "JPEG",
                                    "libturbojpeg.so.0",
                                    NULL,
                                    "libturbojpeg0",
                                    { { "tjInitDecompress", &start },
                                      { "tjDecompressHeader3", &header },
                                      { "tjDecompress2", &decode },
                                      { "tjGetErrorStr2", &why },
                                      { "tjDestroy", &end },
                                      { NULL, NULL } } };
    void *lib = load(j, &wanted), *h;
    int width, height, sampling, space, rc;
    uint8_t *to;

    if (!lib)
        return OPM_EUNSUPPORTED;
    h = start();
    if (!h)
        rc = opm__fail(j->err, OPM_ENOMEM, "out of memory for %s", j->path);
    else if (header(h, j->data, (unsigned long)j->len, &width, &height, &sampling, &space))
        rc = image_broken(j, "%.100s", why(h));
    else
        rc = image_room(j, width, height, 3, 3, &to);
    if (!rc && decode(h, j->data, (unsigned long)j->len, to, width, 0, height, 0, 0))
        rc = image_broken(j, "%.100s", why(h));
    if (h)
        end(h);
    dlclose(lib);
    return rc;
}

/* -- WebP -- */

int image_read_webp(const struct image_job *j)
{
    int (*info)(const uint8_t *, size_t, int *, int *);
    uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int);
    const struct library wanted = {
        "WebP",
        "libwebp.so.7",
        "libwebp.so.6",
        "libwebp7",
        { { "WebPGetInfo", &info }, { "WebPDecodeRGBInto", &decode }, { NULL, NULL } }
    };
    void *lib = load(j, &wanted);
    int width, height, rc;
    uint8_t *to;

    if (!lib)
        return OPM_EUNSUPPORTED;
    rc = info(j->data, j->len, &width, &height) ? image_room(j, width, height, 3, 3, &to)
                                                : image_broken(j, "the WebP's header is broken");
    if (!rc && !decode(j->data, j->len, to, (size_t)width * (size_t)height * 3, 3 * width))
        rc = image_broken(j, "the WebP is broken, or not one picture");
    dlclose(lib);
    return rc;
}

/* -- TIFF -- */

/* A file that libtiff reads: bytes in memory. */
struct bytes {
    const uint8_t *p;
    uint64_t len, at;
};

static ptrdiff_t tiff_read(void *file, void *to, ptrdiff_t n)
{
    struct bytes *b = file;
    uint64_t part = n > 0 && b->at < b->len ? MIN((uint64_t)n, b->len - b->at) : 0;

    if (part)
        memcpy(to, b->p + b->at, part);
    b->at += part;
    return (ptrdiff_t)part;
}

static ptrdiff_t tiff_write(void *file, void *from, ptrdiff_t n)
{
    (void)file, (void)from, (void)n;
    return -1;
}

static uint64_t tiff_seek(void *file, uint64_t at, int whence)
{
    struct bytes *b = file;

    b->at = at + (whence == SEEK_CUR ? b->at : whence == SEEK_END ? b->len : 0);
    return b->at;
}

static int tiff_close(void *file)
{
    (void)file;
    return 0;
}

static uint64_t tiff_size(void *file)
{
    return ((const struct bytes *)file)->len;
}

#define TIFF_WIDTH 256
#define TIFF_HEIGHT 257
#define TIFF_FROM_TOP_LEFT 1

typedef void (*tiff_handler)(const char *, const char *, va_list);

int image_read_tiff(const struct image_job *j)
{
    tiff_handler (*on_error)(tiff_handler), (*on_warning)(tiff_handler), error, warning;
    void *(*open)(const char *, const char *, void *, ptrdiff_t (*)(void *, void *, ptrdiff_t),
                  ptrdiff_t (*)(void *, void *, ptrdiff_t), uint64_t (*)(void *, uint64_t, int),
                  int (*)(void *), uint64_t (*)(void *), int (*)(void *, void **, uint64_t *),
                  void (*)(void *, void *, uint64_t));
    int (*field)(void *, uint32_t, ...);
    int (*decode)(void *, uint32_t, uint32_t, uint32_t *, int, int);
    void (*end)(void *);
    const struct library wanted = { "TIFF",
                                    "libtiff.so.6",
                                    "libtiff.so.5",
                                    "libtiff6",
                                    { { "TIFFSetErrorHandler", &on_error },
                                      { "TIFFSetWarningHandler", &on_warning },
                                      { "TIFFClientOpen", &open },
                                      { "TIFFGetField", &field },
                                      { "TIFFReadRGBAImageOriented", &decode },
                                      { "TIFFClose", &end },
                                      { NULL, NULL } } };
    struct bytes file = { j->data, j->len, 0 };
    void *lib = load(j, &wanted), *tiff;
    uint32_t width = 0, height = 0;
    uint8_t *to = NULL;
    int rc = 0;

    if (!lib)
        return OPM_EUNSUPPORTED;
    error = on_error(NULL); /* they print */
    warning = on_warning(NULL);
    tiff = open("TIFF", "rm", &file, tiff_read, tiff_write, tiff_seek, tiff_close, tiff_size, NULL,
                NULL);
    if (!tiff || !field(tiff, TIFF_WIDTH, &width) || !field(tiff, TIFF_HEIGHT, &height))
        rc = image_broken(j, "the TIFF's header is broken");
    if (!rc)
        rc = image_room(j, width, height, 3, 4, &to);
    if (!rc && !decode(tiff, width, height, (uint32_t *)(void *)to, TIFF_FROM_TOP_LEFT, 1))
        rc = image_broken(j, "the TIFF is broken, or packed in a way that libtiff does not read");
    for (int64_t i = 0; !rc && i < (int64_t)width * height; i++) {
        uint32_t v;

        memcpy(&v, to + 4 * i, 4); /* red is in its lowest byte */
        for (int c = 0; c < 3; c++)
            to[3 * i + c] = (uint8_t)(v >> 8 * c);
    }
    if (tiff)
        end(tiff);
    on_error(error);
    on_warning(warning);
    dlclose(lib);
    return rc;
}

/* -- JPEG 2000 -- */

struct opj_component {
    uint32_t dx, dy, w, h, x0, y0, precision, bits, is_signed, resolutions, factor;
    int32_t *data;
    uint16_t alpha;
};

struct opj_image {
    uint32_t x0, y0, x1, y1, ncomponents;
    int space;
    struct opj_component *component;
    uint8_t *profile;
    uint32_t profile_len;
};

#define OPJ_J2K 0
#define OPJ_JP2 2
#define OPJ_SYCC 3

static size_t opj_read(void *to, size_t n, void *user)
{
    size_t part = (size_t)tiff_read(user, to, (ptrdiff_t)n);

    return part ? part : (size_t)-1;
}

static int64_t opj_skip(int64_t n, void *user)
{
    struct bytes *b = user;

    if (n < 0 || (uint64_t)n > b->len - MIN(b->at, b->len))
        return -1;
    b->at += (uint64_t)n;
    return n;
}

static int opj_seek(int64_t at, void *user)
{
    struct bytes *b = user;

    if (at < 0 || (uint64_t)at > b->len)
        return 0;
    b->at = (uint64_t)at;
    return 1;
}

/* The sample of a component that covers a pixel, as 8 bits. */
static int opj_sample(const struct opj_component *c, uint32_t x, uint32_t y)
{
    uint32_t sx = MIN(x / c->dx, c->w - 1), sy = MIN(y / c->dy, c->h - 1);
    int64_t v = c->data[(size_t)sy * c->w + sx], top = ((int64_t)1 << c->precision) - 1;

    if (c->is_signed)
        v += (int64_t)1 << (c->precision - 1);
    v = MIN(MAX(v, 0), top);
    return (int)(c->precision > 8 ? v >> (c->precision - 8) : v * 255 / top);
}

static uint8_t byte_of(double v)
{
    return (uint8_t)(MIN(MAX(v, 0.0), 255.0) + 0.5);
}

static int opj_pixels(const struct image_job *j, const struct opj_image *im, uint8_t *to)
{
    uint32_t n = im->ncomponents >= 3 ? 3 : 1;

    for (uint32_t c = 0; c < n; c++) {
        const struct opj_component *p = &im->component[c];

        if (!p->data || !p->w || !p->h || !p->dx || !p->dy || !p->precision || p->precision > 31)
            return image_broken(j, "the JPEG 2000 lacks one of its colours");
    }
    for (uint32_t y = 0; y < (uint32_t)j->im->height; y++)
        for (uint32_t x = 0; x < (uint32_t)j->im->width; x++, to += 3) {
            for (uint32_t c = 0; c < 3; c++)
                to[c] = (uint8_t)opj_sample(&im->component[c < n ? c : 0], x, y);
            if (n == 3 && im->space == OPJ_SYCC) {
                double luma = to[0], cb = to[1] - 128.0, cr = to[2] - 128.0;

                to[0] = byte_of(luma + 1.402 * cr);
                to[1] = byte_of(luma - 0.344136 * cb - 0.714136 * cr);
                to[2] = byte_of(luma + 1.772 * cb);
            }
        }
    return 0;
}

int image_read_jpeg2000(const struct image_job *j)
{
    void *(*codec_new)(int), *(*stream_new)(size_t, int);
    void (*codec_free)(void *), (*stream_free)(void *), (*image_free)(struct opj_image *);
    void (*defaults)(void *);
    int (*setup)(void *, void *), (*header)(void *, void *, struct opj_image **),
        (*decode)(void *, void *, struct opj_image *), (*finish)(void *, void *);
    void (*on_read)(void *, size_t (*)(void *, size_t, void *)),
        (*on_skip)(void *, int64_t (*)(int64_t, void *)),
        (*on_seek)(void *, int (*)(int64_t, void *)), (*user)(void *, void *, void (*)(void *)),
        (*length)(void *, uint64_t);
    const struct library wanted = { "JPEG 2000",
                                    "libopenjp2.so.7",
                                    NULL,
                                    "libopenjp2-7",
                                    { { "opj_create_decompress", &codec_new },
                                      { "opj_stream_create", &stream_new },
                                      { "opj_destroy_codec", &codec_free },
                                      { "opj_stream_destroy", &stream_free },
                                      { "opj_image_destroy", &image_free },
                                      { "opj_set_default_decoder_parameters", &defaults },
                                      { "opj_setup_decoder", &setup },
                                      { "opj_read_header", &header },
                                      { "opj_decode", &decode },
                                      { "opj_end_decompress", &finish },
                                      { "opj_stream_set_read_function", &on_read },
                                      { "opj_stream_set_skip_function", &on_skip },
                                      { "opj_stream_set_seek_function", &on_seek },
                                      { "opj_stream_set_user_data", &user },
                                      { "opj_stream_set_user_data_length", &length },
                                      { NULL, NULL } } };
    _Alignas(16) char parameters[32768] = { 0 }; /* its structure has about 8 KiB */
    struct bytes file = { j->data, j->len, 0 };
    void *lib = load(j, &wanted), *codec, *stream;
    struct opj_image *im = NULL;
    uint8_t *to = NULL;
    int rc = 0;

    if (!lib)
        return OPM_EUNSUPPORTED;
    codec = codec_new(j->data[0] == 0xff ? OPJ_J2K : OPJ_JP2);
    stream = stream_new(65536, 1);
    if (codec && stream) {
        on_read(stream, opj_read);
        on_skip(stream, opj_skip);
        on_seek(stream, opj_seek);
        user(stream, &file, NULL);
        length(stream, file.len);
        defaults(parameters);
        if (!setup(codec, parameters) || !header(stream, codec, &im) || !im || im->ncomponents < 1)
            rc = image_broken(j, "the JPEG 2000's header is broken");
        else
            rc = image_room(j, (int64_t)im->x1 - im->x0, (int64_t)im->y1 - im->y0, 3, 3, &to);
        if (!rc && (!decode(codec, stream, im) || !finish(codec, stream)))
            rc = image_broken(j, "the JPEG 2000 is broken");
        if (!rc)
            rc = opj_pixels(j, im, to);
    } else
        rc = opm__fail(j->err, OPM_ENOMEM, "out of memory for %s", j->path);
    if (im)
        image_free(im);
    if (stream)
        stream_free(stream);
    if (codec)
        codec_free(codec);
    dlclose(lib);
    return rc;
}
