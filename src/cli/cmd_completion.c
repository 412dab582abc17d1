/* cmd_completion.c -- what a shell needs to complete command lines, from the tables of commands and
 * options. */
#include "cli/cli.h"

#include "cli/topics.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

static const char about[] =
    "Print a script with which a shell completes commands, options, their values and files. "
    "Packages install it; without one: source <(opmeter completion bash), opmeter completion zsh > "
    "~/.zfunc/_opmeter, or opmeter completion fish | source.";

/* What a shell's script consists of; globals: the options in front of a command. */
struct shell {
    const char *name;
    void (*begin)(struct io_out *out, const struct option *globals);
    /* The options of a command. */
    void (*command)(struct io_out *out, const struct command *c, const struct option *opts);
    void (*end)(struct io_out *out, const struct option *globals);
};

struct listing {
    struct cli *cli;
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

/* The formats that an option names; NULL: none. */
static const opm_format *formats_of(const struct option *o)
{
    if (!o->name || !o->arg)
        return NULL;
    if (strcmp(o->name, "format") == 0 && strcmp(o->arg, "FORMAT") == 0)
        return opm_export_formats();
    return (strcmp(o->name, "format") == 0 || strcmp(o->name, "input-format") == 0) &&
                   strcmp(o->arg, "NAME") == 0
               ? opm_import_formats()
               : NULL;
}

static bool names_table(const struct option *o)
{
    return o->name && o->arg && strcmp(o->name, "table") == 0 && strcmp(o->arg, "TABLE") == 0;
}

/* Are its values words that we know? */
static bool has_words(const struct option *o)
{
    return o->kind == OPTION_CHOICE || formats_of(o) || names_table(o);
}

static void put_tables(struct io_out *out)
{
    opm_trace *t = NULL;
    opm_rows *r = NULL;

    if (opm_trace_open(&t, NULL, 0, NULL, NULL) == 0 &&
        opm_trace_query(t, "SELECT DISTINCT table_name FROM schema", &r, NULL) == 0)
        for (int i = 0; opm_rows_next(r, NULL) > 0; i++)
            io_out_addf(out, "%s%s", i ? " " : "", opm_rows_text(r, 0, NULL));
    opm_rows_close(r);
    opm_trace_close(t);
}

static void put_choices(struct io_out *out, const struct option *o)
{
    const opm_format *formats = formats_of(o);

    for (const char *const *c = o->choices; o->kind == OPTION_CHOICE && c && *c; c++)
        io_out_addf(out, "%s%s", c == o->choices ? "" : " ", *c);
    for (const opm_format *f = formats; f && f->name; f++)
        io_out_addf(out, "%s%s", f == formats ? "" : " ", f->name);
    if (names_table(o))
        put_tables(out);
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

/* What a command takes besides files: words of ours, or standard models by name. */
enum takes { TAKES_FILES, TAKES_HELP, TAKES_MODELS, TAKES_ZOO, TAKES_TABLES };

static enum takes takes(const struct command *c)
{
    return strcmp(c->name, "help") == 0     ? TAKES_HELP
           : strcmp(c->name, "run") == 0    ? TAKES_MODELS
           : strcmp(c->name, "zoo") == 0    ? TAKES_ZOO
           : strcmp(c->name, "schema") == 0 ? TAKES_TABLES
                                            : TAKES_FILES;
}

/* The standard models, each behind prefix. */
static void put_models(struct io_out *out, const char *prefix)
{
    struct run_zoo_entry e;

    for (size_t i = 0; run_zoo_entry(i, &e); i++)
        io_out_addf(out, "%s%s%s", i ? " " : "", prefix, e.name);
}

static void put_names(struct io_out *out, const struct option *opts)
{
    for (const struct option *o = opts; o->kind != OPTION_END; o++)
        if (is_option(o) && o->name)
            io_out_addf(out, "--%s ", o->name);
    io_out_adds(out, "--help");
}

/* "--color|" and so on: the options that have a value. */
static void put_valued(struct io_out *out, const struct option *opts)
{
    const char *between = "";

    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        if (!is_option(o) || !o->arg)
            continue;
        if (o->name)
            io_out_addf(out, "%s--%s", between, o->name);
        if (o->letter)
            io_out_addf(out, "%s-%c", o->name ? "|" : between, o->letter);
        between = "|";
    }
}

/* -- bash -- */

static void bash_begin(struct io_out *out, const struct option *globals)
{
    io_out_adds(out, "# bash completion for opmeter; written by 'opmeter completion bash'\n"
                     "_opmeter() {\n"
                     "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local command= words= i\n"
                     "    # --option=value is three words, and so is zoo:name\n"
                     "    if [[ $word == = ]]; then word=\n"
                     "    elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}\n"
                     "    elif [[ $word == : && $before == zoo ]]; then word= before=zoo:\n"
                     "    elif [[ $before == : && ${COMP_WORDS[COMP_CWORD-2]} == zoo ]]; then "
                     "before=zoo:; fi\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        case ${COMP_WORDS[i]} in\n"
                     "            ");
    put_valued(out, globals);
    io_out_adds(out, ") ((i++)) ;;\n"
                     "            -*) ;;\n"
                     "            *) command=${COMP_WORDS[i]}; break ;;\n"
                     "        esac\n"
                     "    done\n"
                     "    case $command:$before in\n"
                     "        *:zoo:) words='");
    put_models(out, "");
    io_out_adds(out, "' ;;\n");
}

/* The values of options that have a choice of them, behind a command. */
static void bash_values(struct io_out *out, const char *command, const struct option *opts)
{
    for (const struct option *o = opts; o->kind != OPTION_END; o++) {
        if (!has_words(o))
            continue;
        io_out_addf(out, "        %s:--%s", command, o->name);
        if (o->letter)
            io_out_addf(out, "|%s:-%c", command, o->letter);
        io_out_adds(out, ") words='");
        put_choices(out, o);
        io_out_adds(out, "' ;;\n");
    }
}

static void bash_command(struct io_out *out, const struct command *c, const struct option *opts)
{
    bash_values(out, c->name, opts);
    io_out_addf(out, "        %s:*)\n            if [[ $word == -* ]]; then words='", c->name);
    put_names(out, opts);
    io_out_adds(out, "'");
    if (takes(c) == TAKES_HELP) {
        io_out_adds(out, "; else words='");
        put_commands(out);
        put_topics(out);
        io_out_adds(out, "'");
    } else if (takes(c) == TAKES_ZOO || takes(c) == TAKES_TABLES) {
        io_out_adds(out, "; else words='");
        if (takes(c) == TAKES_ZOO)
            put_models(out, "");
        else
            put_tables(out);
        io_out_adds(out, "'");
    } else if (takes(c) == TAKES_MODELS) {
        /* Of a name of a file, the shell would quote the colon. */
        io_out_adds(out,
                    "; elif [[ $word == z* ]]; then compopt +o filenames 2>/dev/null; words='");
        put_models(out, "zoo:");
        io_out_adds(out, "'");
    }
    io_out_adds(out, "; fi ;;\n");
}

static void bash_end(struct io_out *out, const struct option *globals)
{
    bash_values(out, "", globals);
    io_out_adds(out, "        :*) words='");
    put_commands(out);
    io_out_adds(out, " ");
    put_names(out, globals);
    io_out_adds(out, "' ;;\n"
                     "    esac\n"
                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                     "    if [[ ${#COMPREPLY[@]} == 0 || ( -z $command && -n $word ) ]]; then\n"
                     "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
                     "    fi\n"
                     "}\n"
                     "complete -o filenames -F _opmeter opmeter\n");
}

/* -- zsh -- */

static void zsh_begin(struct io_out *out, const struct option *globals)
{
    io_out_adds(out, "#compdef opmeter\n"
                     "# zsh completion for opmeter; written by 'opmeter completion zsh'\n"
                     "_opmeter_models() {\n"
                     "    compadd -- ");
    put_models(out, "zoo:");
    io_out_adds(out, "\n"
                     "    _files\n"
                     "}\n"
                     "_opmeter() {\n"
                     "    local -a list\n"
                     "    # options in front of the command; some have a value\n"
                     "    while (( CURRENT > 2 )) && [[ $words[2] == -* ]]; do\n"
                     "        if [[ $words[2] == (");
    put_valued(out, globals);
    io_out_adds(out, ") ]]; then\n"
                     "            if (( CURRENT == 3 )); then\n"
                     "                case $words[2] in\n");
    for (const struct option *o = globals; o->kind != OPTION_END; o++) {
        if (!has_words(o))
            continue;
        io_out_addf(out, "                    --%s) compadd -- ", o->name);
        put_choices(out, o);
        io_out_adds(out, " ;;\n");
    }
    io_out_adds(out, "                esac\n"
                     "                return\n"
                     "            fi\n"
                     "            words[2]=()\n"
                     "            (( CURRENT-- ))\n"
                     "        fi\n"
                     "        words[2]=()\n"
                     "        (( CURRENT-- ))\n"
                     "    done\n"
                     "    if (( CURRENT == 2 )); then\n"
                     "        if [[ $words[2] == -* ]]; then compadd -- ");
    put_names(out, globals);
    io_out_adds(out, "; return; fi\n"
                     "        list=(\n");
    for (const struct command *c = commands; c->name; c++) {
        io_out_addf(out, "            %s:", c->name);
        put_quoted(out, c->help, "");
        io_out_adds(out, "\n");
    }
    io_out_adds(out, "        )\n"
                     "        _describe command list\n"
                     "        _opmeter_models\n"
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
    if (has_words(o)) {
        io_out_adds(out, "(");
        put_choices(out, o);
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
    if (takes(c) == TAKES_HELP) {
        io_out_adds(out, "                '*:topic:(");
        put_commands(out);
        put_topics(out);
        io_out_adds(out, ")' ;;\n");
    } else if (takes(c) == TAKES_ZOO) {
        io_out_adds(out, "                '*:model:(");
        put_models(out, "");
        io_out_adds(out, ")' ;;\n");
    } else if (takes(c) == TAKES_TABLES) {
        io_out_adds(out, "                '*:table:(");
        put_tables(out);
        io_out_adds(out, ")' ;;\n");
    } else {
        io_out_addf(out, "                '*:file:%s' ;;\n",
                    takes(c) == TAKES_MODELS ? "_opmeter_models" : "_files");
    }
}

static void zsh_end(struct io_out *out, const struct option *globals)
{
    (void)globals;
    io_out_adds(out,
                "    esac\n"
                "}\n"
                "if [[ $funcstack[1] == _opmeter ]]; then _opmeter \"$@\"; else compdef _opmeter"
                " opmeter; fi\n");
}

/* -- fish -- */

static void fish_option(struct io_out *out, const char *where, const struct option *o)
{
    io_out_addf(out, "complete -c opmeter -n '%s'", where);
    if (o->name)
        io_out_addf(out, " -l %s", o->name);
    if (o->letter)
        io_out_addf(out, " -s %c", o->letter);
    if (has_words(o)) {
        io_out_adds(out, " -x -a '");
        put_choices(out, o);
        io_out_adds(out, "'");
    } else if (o->arg) {
        io_out_adds(out, " -r");
    }
    io_out_adds(out, " -d ");
    put_quoted(out, o->help, "\\");
    io_out_adds(out, "\n");
}

static void fish_begin(struct io_out *out, const struct option *globals)
{
    io_out_adds(out, "# fish completion for opmeter; written by 'opmeter completion fish'\n"
                     "# The command on the line; options in front of it may have a value.\n"
                     "function __opmeter_command\n"
                     "    set -l words (commandline -opc)\n"
                     "    set -e words[1]\n"
                     "    while set -q words[1]\n"
                     "        switch $words[1]\n");
    for (const struct option *o = globals; o->kind != OPTION_END; o++)
        if (is_option(o) && o->arg)
            io_out_addf(out,
                        "            case --%s\n"
                        "                set -q words[2]; and set -e words[2]\n",
                        o->name);
    io_out_adds(out, "            case '-*'\n"
                     "            case '*'\n"
                     "                echo $words[1]\n"
                     "                return 0\n"
                     "        end\n"
                     "        set -e words[1]\n"
                     "    end\n"
                     "    return 1\n"
                     "end\n"
                     "function __opmeter_is\n"
                     "    set -l command (__opmeter_command); and test \"$command\" = $argv[1]\n"
                     "end\n"
                     "function __opmeter_none\n"
                     "    not __opmeter_command >/dev/null\n"
                     "end\n");
    for (const struct command *c = commands; c->name; c++) {
        io_out_addf(out, "complete -c opmeter -n __opmeter_none -a %s -d ", c->name);
        put_quoted(out, c->help, "\\");
        io_out_adds(out, "\n");
    }
    for (const struct option *o = globals; o->kind != OPTION_END; o++)
        if (is_option(o))
            fish_option(out, "__opmeter_none", o);
    io_out_adds(out, "complete -c opmeter -n __opmeter_none -a '");
    put_models(out, "zoo:");
    io_out_adds(out, "' -d 'standard model'\n");
}

static void fish_command(struct io_out *out, const struct command *c, const struct option *opts)
{
    char where[64];

    snprintf(where, sizeof(where), "__opmeter_is %s", c->name);
    for (const struct option *o = opts; o->kind != OPTION_END; o++)
        if (is_option(o))
            fish_option(out, where, o);
    if (takes(c) == TAKES_FILES)
        return;
    io_out_addf(out, "complete -c opmeter -n '%s' %s-a '", where,
                takes(c) == TAKES_MODELS ? "" : "-f ");
    if (takes(c) == TAKES_HELP) {
        put_commands(out);
        put_topics(out);
    } else if (takes(c) == TAKES_TABLES) {
        put_tables(out);
    } else {
        put_models(out, takes(c) == TAKES_MODELS ? "zoo:" : "");
    }
    io_out_adds(out, "'\n");
}

static void fish_end(struct io_out *out, const struct option *globals)
{
    (void)globals;
    io_out_adds(out, "complete -c opmeter -l help -s h -d 'show this help'\n");
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

static void print_script(void *user, const struct option *globals)
{
    static char ask[] = "--help";
    struct listing *l = user;
    struct cli *cli = l->cli;

    l->shell->begin(l->out, globals);
    cli->on_options = list_options;
    cli->on_options_user = l;
    for (l->command = commands; l->command->name; l->command++) {
        char *ask_argv[] = { ask, NULL };

        cli->command = l->command;
        l->command->run(cli, 1, ask_argv);
    }
    cli->on_options = NULL;
    l->shell->end(l->out, globals);
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
    for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
        struct listing l = { .cli = cli, .out = &cli->out, .shell = &shells[i] };

        if (strcmp(shells[i].name, argv[0]) != 0)
            continue;
        cli_global_options(cli, print_script, &l);
        return CLI_OK;
    }
    return cli_usage(cli, "no completion for '%s'; there is: bash, zsh, fish", argv[0]);
}
