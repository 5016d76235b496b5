// SPDX-License-Identifier: Apache-2.0
// alula completion: prints the scripts of completion/, which are embedded, so that the binary alone is enough.
#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"

static const char help[] =
    "Usage: alula completion bash | zsh | fish\n"
    "Prints the completion script of a shell. make install puts them where the shells look by themselves.\n\n"
    "  --help   this text\n\n"
    "Examples:\n"
    "  eval \"$(alula completion bash)\"                              in ~/.bashrc\n"
    "  alula completion zsh > ~/.zfunc/_alula                       with fpath+=~/.zfunc before compinit\n"
    "  alula completion fish > ~/.config/fish/completions/alula.fish\n"
    "\nExit status: 0; 2 an unknown shell.\n";

int al_cmd_completion(int argc, char **argv) {
    static const struct option long_options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    static const struct {
        const char *shell, *text;
    } scripts[] = {{"bash", al_completion_bash}, {"zsh", al_completion_zsh}, {"fish", al_completion_fish}};
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option != 'h')
            return al_error_exit_status(AL_E_INVALID);
        fputs(help, stdout);
        return al_cli_flush();
    }
    for (size_t i = 0; argc - optind == 1 && i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(argv[optind], scripts[i].shell) == 0) {
            fputs(scripts[i].text, stdout);
            return al_cli_flush();
        }
    al_cli_error("completion: name one shell: bash, zsh or fish");
    return al_error_exit_status(AL_E_INVALID);
}
