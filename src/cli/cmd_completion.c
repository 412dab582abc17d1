/* cmd_completion.c -- what a shell needs to complete command lines, from the tables of commands and
 * options. */
#include "cli/cli.h"

#include "cli/topics.h"

#include <string.h>

static const char about[] =
    "Print a script with which a shell completes commands, options, their values and files. "
    "Packages install it; without one: source <(opmeter completion bash), opmeter completion zsh > "
    "~/.zfunc/_opmeter, or opmeter completion fish | source.";

/* In front of a command. */
#define GLOBAL_OPTIONS "--help --version --color --quiet"

/* What a shell's script consists of. */
struct shell {
    const char *name;
    void (*begin)(struct io_out *out);
    /* The options of a command. */
    void (*command)(struct io_out *out, const struct command *c, const struct option *opts);
    void (*end)(struct io_out *out);
};

struct listing {
    struct io_out *out;
    const struct shell *shell;
    const struct command *command;
};

/* Print text inside single quotes of a shell; drop: characters that its own syntax needs. */
static void put_quoted(struct io_out *out, const char *text, const char *drop)
{
    io_out_adds(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            io_out_adds(out, "'\\''");
        else if (!strchr(drop, *text))
            io_out_add(out, text, 1);
    }
    io_out_adds(out, "'");
}

static void put_choices(struct io_out *out, const struct option *o, const char *between)
{
    for (const char *const *c = o->choices; c && *c; c++)
        io_out_addf(out, "%s%s", c == o->choices ? "" : between, *c);
}

static void put_commands(struct io_out *out)
{
    for (const struct command *c = commands; c->name; c++)
        io_out_addf(out, "%s%s", c == commands ? "" : " ", c->name);
}

static void put_topics(struct io_out *out)
{
    io_out_adds(out, " topics");
    for (const struct topic *t = topics; t->name; t++)
        io_out_addf(out, " %s", t->name);
}

static bool is_option(const struct option *o)
{
    return o->kind != OPTION_GROUP && o->kind != OPTION_ALIAS;
}

/* -- bash -- */

static void bash_begin(struct io_out *out)
{
    io_out_adds(out, "# bash completion for opmeter; written by 'opmeter completion bash'\n"
                     "_opmeter() {\n"
                     "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local command= words= i\n"
                     "    # --option=value is three words\n"
                     "    if [[ $word == = ]]; then word=\n"
                     "    elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        case ${COMP_WORDS[i]} in\n"
                     "            --color) ((i++)) ;;\n"
                     "            -*) ;;\n"
                     "            *) command=${COMP_WORDS[i]}; break ;;\n"
                     "        esac\n"
                     "    done\n"
                     "    case $command:$before in\n");
}

static void bash_command(struct io_out *out, const struct command *c, const struct option *opts)
{
    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        if (o->kind != OPTION_CHOICE)
            continue;
        io_out_addf(out, "        %s:--%s", c->name, o->name);
        if (o->letter)
            io_out_addf(out, "|%s:-%c", c->name, o->letter);
        io_out_adds(out, ") words='");
        put_choices(out, o, " ");
        io_out_adds(out, "' ;;\n");
    }
    io_out_addf(out, "        %s:*)\n            if [[ $word == -* ]]; then words='", c->name);
    for (const struct option *o = opts; o->kind != OPTION_END; o++)
        if (is_option(o) && o->name)
            io_out_addf(out, "--%s ", o->name);
    io_out_adds(out, "--help'");
    if (strcmp(c->name, "help") == 0) {
        io_out_adds(out, "; else words='");
        put_commands(out);
        put_topics(out);
        io_out_adds(out, "'");
    }
    io_out_adds(out, "; fi ;;\n");
}

static void bash_end(struct io_out *out)
{
    io_out_adds(out, "        :*) words='");
    put_commands(out);
    io_out_adds(out, " " GLOBAL_OPTIONS "' ;;\n"
                     "    esac\n"
                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                     "    if [[ ${#COMPREPLY[@]} == 0 || ( -z $command && -n $word ) ]]; then\n"
                     "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
                     "    fi\n"
                     "}\n"
                     "complete -o filenames -F _opmeter opmeter\n");
}

/* -- zsh -- */

static void zsh_begin(struct io_out *out)
{
    io_out_adds(
        out,
        "#compdef opmeter\n"
        "# zsh completion for opmeter; written by 'opmeter completion zsh'\n"
        "_opmeter() {\n"
        "    local -a list\n"
        "    # options in front of the command; --color has a value\n"
        "    while (( CURRENT > 2 )) && [[ $words[2] == -* ]]; do\n"
        "        [[ $words[2] == --color && CURRENT -gt 3 ]] && words[2]=() && (( CURRENT-- ))\n"
        "        words[2]=()\n"
        "        (( CURRENT-- ))\n"
        "    done\n"
        "    if (( CURRENT == 2 )); then\n"
        "        if [[ $words[2] == -* ]]; then compadd -- " GLOBAL_OPTIONS "; return; fi\n"
        "        list=(\n");
    for (const struct command *c = commands; c->name; c++) {
        io_out_addf(out, "            %s:", c->name);
        put_quoted(out, c->help, "");
        io_out_adds(out, "\n");
    }
    io_out_adds(out, "        )\n"
                     "        _describe command list\n"
                     "        _files\n"
                     "        return\n"
                     "    fi\n"
                     "    local command=$words[2]\n"
                     "    (( CURRENT-- ))\n"
                     "    shift words\n"
                     "    case $command in\n");
}

static void zsh_option(struct io_out *out, const struct option *o, const char *dashes,
                       const char *name)
{
    io_out_addf(out, "                '*%s%s", dashes, name);
    io_out_adds(out, o->arg && dashes[1] ? "=''['" : "''['");
    put_quoted(out, o->help, "[]:");
    io_out_adds(out, "']");
    if (o->arg)
        io_out_addf(out, ":%s:", o->arg);
    if (o->kind == OPTION_CHOICE) {
        io_out_adds(out, "(");
        put_choices(out, o, " ");
        io_out_adds(out, ")");
    } else if (o->arg) {
        io_out_adds(out, "_files");
    }
    io_out_adds(out, "' \\\n");
}

static void zsh_command(struct io_out *out, const struct command *c, const struct option *opts)
{
    io_out_addf(out, "        %s)\n            _arguments -s -S \\\n", c->name);
    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        char letter[2] = { o->letter, '\0' };

        if (!is_option(o))
            continue;
        if (o->name)
            zsh_option(out, o, "--", o->name);
        if (o->letter)
            zsh_option(out, o, "-", letter);
    }
    io_out_adds(out, "                '*--help[show this help]' \\\n");
    if (strcmp(c->name, "help") == 0) {
        io_out_adds(out, "                '*:topic:(");
        put_commands(out);
        put_topics(out);
        io_out_adds(out, ")' ;;\n");
    } else {
        io_out_adds(out, "                '*:file:_files' ;;\n");
    }
}

static void zsh_end(struct io_out *out)
{
    io_out_adds(out,
                "    esac\n"
                "}\n"
                "if [[ $funcstack[1] == _opmeter ]]; then _opmeter \"$@\"; else compdef _opmeter"
                " opmeter; fi\n");
}

/* -- fish -- */

static void fish_begin(struct io_out *out)
{
    io_out_adds(out, "# fish completion for opmeter; written by 'opmeter completion fish'\n");
    for (const struct command *c = commands; c->name; c++) {
        io_out_addf(out, "complete -c opmeter -n __fish_use_subcommand -a %s -d ", c->name);
        put_quoted(out, c->help, "\\");
        io_out_adds(out, "\n");
    }
}

static void fish_command(struct io_out *out, const struct command *c, const struct option *opts)
{
    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        if (!is_option(o))
            continue;
        io_out_addf(out, "complete -c opmeter -n '__fish_seen_subcommand_from %s'", c->name);
        if (o->name)
            io_out_addf(out, " -l %s", o->name);
        if (o->letter)
            io_out_addf(out, " -s %c", o->letter);
        if (o->kind == OPTION_CHOICE) {
            io_out_adds(out, " -x -a '");
            put_choices(out, o, " ");
            io_out_adds(out, "'");
        } else if (o->arg) {
            io_out_adds(out, " -r");
        }
        io_out_adds(out, " -d ");
        put_quoted(out, o->help, "\\");
        io_out_adds(out, "\n");
    }
    if (strcmp(c->name, "help") == 0) {
        io_out_adds(out, "complete -c opmeter -n '__fish_seen_subcommand_from help' -f -a '");
        put_commands(out);
        put_topics(out);
        io_out_adds(out, "'\n");
    }
}

static void fish_end(struct io_out *out)
{
    io_out_adds(out, "complete -c opmeter -l help -s h -d 'show this help'\n"
                     "complete -c opmeter -n __fish_use_subcommand -a '" GLOBAL_OPTIONS "'\n");
}

/* -- all of them -- */

static const struct shell shells[] = {
    { "bash", bash_begin, bash_command, bash_end },
    { "zsh", zsh_begin, zsh_command, zsh_end },
    { "fish", fish_begin, fish_command, fish_end },
};

static void list_options(void *user, const struct option *opts)
{
    struct listing *l = user;

    l->shell->command(l->out, l->command, opts);
}

static int print_script(struct cli *cli, const struct shell *shell)
{
    static char ask[] = "--help";
    struct listing l = { .out = &cli->out, .shell = shell };

    shell->begin(&cli->out);
    cli->on_options = list_options;
    cli->on_options_user = &l;
    for (l.command = commands; l.command->name; l.command++) {
        char *ask_argv[] = { ask, NULL };

        cli->command = l.command;
        l.command->run(cli, 1, ask_argv);
    }
    cli->on_options = NULL;
    shell->end(&cli->out);
    return CLI_OK;
}

int cmd_completion(struct cli *cli, int argc, char **argv)
{
    const struct option opts[] = {
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);

    if (n < 0)
        return cli->status;
    if (n != 1)
        return cli_usage(cli, "one SHELL is needed: bash, zsh or fish");
    for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
        if (strcmp(shells[i].name, argv[0]) == 0)
            return print_script(cli, &shells[i]);
    return cli_usage(cli, "no completion for '%s'; there is: bash, zsh, fish", argv[0]);
}
