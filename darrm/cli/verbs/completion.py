"""Verb ``darrm completion``: shell completion, made from the declared verbs and options."""

from __future__ import annotations

from typing import Annotated

from darrm.cli import VERBS, load
from darrm.cli.output import answer
from darrm.cli.parser import Argument, Command

SHELLS = ("bash", "zsh", "fish", "powershell")


def completion(shell: Annotated[str, Argument("bash|zsh|fish|powershell", "The shell.")]) -> None:
    """Print a script that completes commands, options and their choices in a shell.

    bash, zsh: add `eval "$(darrm completion bash)"` (or zsh) to ~/.bashrc (or ~/.zshrc, behind compinit). fish: write
    it to ~/.config/fish/completions/darrm.fish. PowerShell: add `darrm completion powershell | Out-String |
    Invoke-Expression` to $PROFILE.
    """
    from darrm_opt.errors import InvalidInput

    if shell not in SHELLS:
        raise InvalidInput("SHELL", shell, "one of " + ", ".join(SHELLS))
    if shell == "powershell":
        answer(_powershell())
    else:
        answer(_fish() if shell == "fish" else _bash(zsh=shell == "zsh"))


def _options() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the options of each verb, each with the choices of its value; a flag or a free value has none."""
    verbs: dict[str, dict[str, tuple[str, ...]]] = {}
    for verb in VERBS:
        options: dict[str, tuple[str, ...]] = {"--help": ()}
        for parameter in Command.of(load(verb)).parameters:
            metavar = parameter.declared.metavar
            choices = tuple(metavar.split("|")) if "|" in metavar and metavar == metavar.lower() else ()
            options |= dict.fromkeys(parameter.flags, choices)
        verbs[verb] = options
    return verbs


def _first_words() -> list[str]:
    return list(dict.fromkeys(verb.split()[0] for verb in VERBS))


def _subcommands(group: str) -> list[str]:
    return [verb.split()[1] for verb in VERBS if verb.startswith(f"{group} ")]


def _bash(*, zsh: bool) -> str:
    groups = [group for group in _first_words() if _subcommands(group)]
    lines = [
        # zsh runs it by its own emulation: one script for both.
        *(["autoload -Uz bashcompinit && bashcompinit"] if zsh else []),
        "_darrm() {",
        (
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb="${COMP_WORDS[1]}" '
            'words=""'
        ),
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(_first_words())} --help --version" -- "$word")); return',
        "  fi",
        '  case "$verb" in',
    ]
    for group in groups:
        subcommands = " ".join(_subcommands(group))
        lines += [
            f"    {group})",
            '      if [ "$COMP_CWORD" -eq 2 ]; then',
            f'        COMPREPLY=($(compgen -W "{subcommands} --help" -- "$word")); return',
            "      fi",
            '      verb="$verb ${COMP_WORDS[2]}" ;;',
        ]
    # The choices of an option's value come before the options of the verb.
    lines += ["  esac", '  case "$verb:$before" in']
    for verb, options in _options().items():
        lines += [
            f'    "{verb}:{flag}") words="{" ".join(choices)}" ;;' for flag, choices in options.items() if choices
        ]
    lines += [
        "  esac",
        '  if [ -n "$words" ]; then',
        '    COMPREPLY=($(compgen -W "$words" -- "$word")); return',
        "  fi",
    ]
    lines += ['  case "$verb" in']
    lines += [f'    "{verb}") words="{" ".join(options)}" ;;' for verb, options in _options().items()]
    lines += [
        "  esac",
        '  case "$word" in',
        '    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;',
        '    *) COMPREPLY=($(compgen -f -- "$word")) ;;',
        "  esac",
        "}",
        "complete -o filenames -F _darrm darrm",
    ]
    return "\n".join(lines)


def _fish() -> str:
    lines = [f'complete -c darrm -n __fish_use_subcommand -f -a "{" ".join(_first_words())}"']
    for group in _first_words():
        if subcommands := _subcommands(group):
            condition = (
                f"__fish_seen_subcommand_from {group}; and not __fish_seen_subcommand_from {' '.join(subcommands)}"
            )
            lines.append(f'complete -c darrm -n "{condition}" -f -a "{" ".join(subcommands)}"')
    for verb, options in _options().items():
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.split())
        for flag, choices in options.items():
            values = f' -x -a "{" ".join(choices)}"' if choices else ""
            lines.append(f'complete -c darrm -n "{condition}" -l {flag.removeprefix("--")}{values}')
    return "\n".join(lines)


def _powershell() -> str:
    """Return a completer for every command line up to the word that is typed."""

    def listed(words: tuple[str, ...] | list[str]) -> str:
        return "@(" + ", ".join(f"'{word}'" for word in words) + ")"

    verbs = "\n".join(f"  '{verb}' = {listed(list(options))}" for verb, options in _options().items())
    # Data are tables and the logic is written once: a script of nested cases would be thousands of lines.
    choices = "\n".join(
        f"  '{verb} {flag}' = {listed(values)}"
        for verb, options in _options().items()
        for flag, values in options.items()
        if values
    )
    groups = "\n".join(f"  '{name}' = {listed(_subcommands(name))}" for name in _first_words() if _subcommands(name))
    return f"""Register-ArgumentCompleter -Native -CommandName darrm -ScriptBlock {{
param($word, $line, $position)
$options = @{{
{verbs}
}}
$choices = @{{
{choices}
}}
$groups = @{{
{groups}
}}
$typed = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object {{ $_.ToString() }})
if ($word -ne '' -and $typed.Count) {{ $typed = @($typed | Select-Object -First ($typed.Count - 1)) }}
if ($typed.Count -eq 0) {{ $found = {listed([*_first_words(), "--help", "--version"])} }}
elseif ($typed.Count -eq 1 -and $groups.ContainsKey($typed[0])) {{ $found = $groups[$typed[0]] }}
else {{
  $verb = $typed[0]
  if ($groups.ContainsKey($verb)) {{ $verb = "$verb $($typed[1])" }}
  $found = $choices["$verb $($typed[-1])"]
  if (-not $found) {{ $found = $options[$verb] }}
}}
$found | Where-Object {{ $_ -like "$word*" }} | ForEach-Object {{
  [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
}}
}}"""
