/* cmd_zoo.c -- list the model zoo, or write one of its models to a file. */
#include "cli/cli.h"

#include "run/run.h"

#include <string.h>
#include <unistd.h>

static const char about[] =
    "List the standard architectures that 'opmeter run zoo:NAME' makes on the spot, with random "
    "weights; or write one as an ONNX file. NAME may have options: resnet50?batch=8&opset=17. The "
    "same name gives the same bytes on every machine. For llama.cpp, llama-tiny and llama-1b are "
    "written as GGUF, too: -o FILE.gguf, with quant=f16, f32, q8_0 or q4_0, and seed. whisper-tiny "
    "is "
    "written as the files that Optimum exports, if FILE is a folder or has no .onnx.";

static int list_models(struct cli *cli)
{
    struct textable *t = textable_new();
    struct run_zoo_entry e;

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "model", TEXTABLE_TEXT);
    textable_column(t, "what it is", TEXTABLE_PROSE);
    textable_column(t, "options", TEXTABLE_PROSE);
    for (size_t i = 0; run_zoo_entry(i, &e); i++) {
        textable_text(t, e.name, strlen(e.name));
        textable_text(t, e.about, strlen(e.about));
        textable_text(t, e.options, strlen(e.options));
    }
    return cli_print_table(cli, t);
}

/* "resnet50?batch=8" and "zoo:resnet50" name the model resnet50. */
static bool named(const char *arg, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(arg, "zoo:", 4) == 0)
        arg += 4;
    return strncmp(arg, name, n) == 0 && (arg[n] == '\0' || arg[n] == '?');
}

/* Whose names are not those of the list. */
static bool is_gguf(const char *output)
{
    size_t n = output ? strlen(output) : 0;

    return n >= 5 && strcmp(output + n - 5, ".gguf") == 0;
}

static int unknown_model(const struct cli *cli, const char *arg)
{
    struct nearest n = { arg, NULL, 0 };
    struct run_zoo_entry e;

    for (size_t i = 0; run_zoo_entry(i, &e); i++)
        nearest_try(&n, e.name);
    if (n.best)
        return cli_usage(cli, "no such model '%s'; did you mean '%s'?", arg, n.best);
    return cli_usage(cli, "no such model '%s' ('opmeter zoo' lists them)", arg);
}

static int write_model(struct cli *cli, const char *name, const char *output)
{
    struct run_zoo_entry e;
    bool known = is_gguf(output);
    opm_error err;

    for (size_t i = 0; !known && run_zoo_entry(i, &e); i++)
        known = named(name, e.name);
    if (!known)
        return unknown_model(cli, name);
    if (!output)
        return cli_usage(cli, "where to? -o FILE.onnx writes it, 'opmeter run zoo:%s' runs it",
                         name);
    if (strcmp(output, "-") == 0 && isatty(STDOUT_FILENO))
        return cli_usage(cli, "a model is binary, not for a terminal: use -o FILE.onnx");
    return run_zoo_write(name, output, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

int cmd_zoo(struct cli *cli, int argc, char **argv)
{
    const char *output = NULL;
    const struct option opts[] = {
        OPT_STR('o', "output", &output, "FILE", "write the model to FILE ('-': standard output)"),
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);

    if (n < 0)
        return cli->status;
    if (n > 1)
        return cli_usage(cli, "one NAME at most, but there is also '%s'", argv[1]);
    if (n == 0 && output)
        return cli_usage(cli, "which model? 'opmeter zoo' lists them");
    return n == 0 ? list_models(cli) : write_model(cli, argv[0], output);
}
