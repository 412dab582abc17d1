/* cmd_help.c -- show the commands, or how to use one. */
#include "cli/cli.h"

#include "cli/topics.h"

#include <string.h>

static const char about[] =
    "Show the commands of opmeter, how to use one of them, or what there is to know beyond them: "
    "'opmeter help topics' lists that.";

const struct topic topics[] = {
#define TOPIC(name, about, text) { #name, about, text },
#include "cli/topics.def"
#undef TOPIC
    { NULL, NULL, NULL },
};

static int list_topics(struct cli *cli)
{
    int width = 0;

    for (const struct topic *t = topics; t->name; t++)
        width = MAX(width, (int)strlen(t->name));
    for (const struct topic *t = topics; t->name; t++)
        io_out_addf(&cli->out, "  %s%-*s%s  %s\n", cli_style(cli, STYLE_BOLD), width, t->name,
                    cli_style(cli, STYLE_PLAIN), t->about);
    io_out_adds(&cli->out, "\n'opmeter help TOPIC' says it; 'opmeter help' lists the commands.\n");
    return CLI_OK;
}

static const struct topic *topic_find(const char *name)
{
    for (const struct topic *t = topics; t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static int list_commands(struct cli *cli)
{
    int width = 0;

    for (const struct command *c = commands; c->name; c++)
        width = MAX(width, (int)strlen(c->name));
    io_out_adds(&cli->out, "usage: opmeter [--version] [--help] [--color WHEN] [--quiet] COMMAND "
                           "[ARG]...\n"
                           "   or: opmeter MODEL.onnx|zoo:NAME|TRACE [OPTION]...\n\n"
                           "opmeter measures every operator of a neural network.\n\n");
    for (const struct command *c = commands; c->name; c++)
        io_out_addf(&cli->out, "  %s%-*s%s  %s\n", cli_style(cli, STYLE_BOLD), width, c->name,
                    cli_style(cli, STYLE_PLAIN), c->help);
    io_out_adds(&cli->out, "\n'opmeter help COMMAND' says how to use one, "
                           "'man opmeter-COMMAND' says more;\n'opmeter help topics' is about "
                           "models, traces, figures and more.\n");
    return CLI_OK;
}

static int unknown(struct cli *cli, const char *name)
{
    struct nearest n = { .word = name };

    for (const struct command *c = commands; c->name; c++)
        nearest_try(&n, c->name);
    for (const struct topic *t = topics; t->name; t++)
        nearest_try(&n, t->name);
    nearest_try(&n, "topics");
    cli->command = NULL; /* a hint should not lead back here */
    return n.best
               ? cli_usage(cli, "no such command or topic '%s'; did you mean '%s'?", name, n.best)
               : cli_usage(cli, "no such command or topic '%s'", name);
}

int cmd_help(struct cli *cli, int argc, char **argv)
{
    static char ask[] = "--help";
    const struct option opts[] = {
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);
    char *ask_argv[] = { ask, NULL };
    const struct command *c;
    const struct topic *t;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return list_commands(cli);
    if (n > 1)
        return cli_usage(cli, "'%s' is one argument too many", argv[1]);
    if (strcmp(argv[0], "topics") == 0)
        return list_topics(cli);
    t = topic_find(argv[0]);
    if (t) {
        io_out_adds(&cli->out, t->text);
        return CLI_OK;
    }
    for (c = commands; c->name && strcmp(c->name, argv[0]) != 0;)
        c++;
    if (!c->name)
        return unknown(cli, argv[0]);
    cli->command = c;
    return c->run(cli, 1, ask_argv);
}
