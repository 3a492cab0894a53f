import { Command, CommanderError } from 'commander'
import { readFileSync } from 'node:fs'
import { completionCommand } from './commands/completion.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { leaderCommand } from './commands/leader.ts'
import { runCommand } from './commands/run.ts'
import { serveCommand } from './commands/serve.ts'
import { campaignCommand, groupsCommand, membersCommand, resignCommand } from './commands/service.ts'
import { sidecarCommand } from './commands/sidecar.ts'
import { watchCommand } from './commands/watch.ts'
import { CommandError, exitCodes } from './errors.ts'
import { tell, writeError, writeOut } from './output.ts'
import { withOtherCase } from './suggestions.ts'

/** The command line, whole. */
export async function main(): Promise<void> {
  const program = new Command('tenure')
    .description('Leader election that stays right when machines stall, networks split and clocks lie.')
    .version(versionOf())
  for (const command of commands()) program.addCommand(command)
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({
      writeOut,
      writeErr: writeError,
      outputError: (text, write) => {
        const told = `${withOtherCase(text, command)}${otherName(text, command)}`
        write(told.replace(/^error: /, 'tenure: '))
      },
    })
  }
  try {
    await program.parseAsync()
  } catch (error) {
    process.exitCode = report(error)
  }
}

function commands(): Command[] {
  return [
    runCommand(),
    leaderCommand(),
    watchCommand(),
    sidecarCommand(),
    doctorCommand(),
    serveCommand(),
    campaignCommand(),
    resignCommand(),
    membersCommand(),
    groupsCommand(),
    demoCommand(),
    completionCommand(),
  ]
}

/** The address of a service is a store to some commands, and all there is to others. */
function otherName(text: string, command: Command): string {
  const [, given] = /^error: unknown option '--(store|url)\b/.exec(text) ?? []
  const other = given === 'store' ? '--url' : '--store'
  const isKnown = given !== undefined && command.options.some(({ long }) => long === other)
  return isKnown ? `(For this command it is ${other}.)\n` : ''
}

function versionOf(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

function report(error: unknown): number {
  // The parser has said it already. Whoever asked for help or the version got it.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage
  if (!(error instanceof CommandError)) throw error
  tell(error.message)
  return error.exitCode
}
