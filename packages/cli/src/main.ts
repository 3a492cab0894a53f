import { Command, CommanderError } from 'commander'
import { backupCommand } from './backup/command.ts'
import { campaignCommand } from './campaign/command.ts'
import { certCommand } from './cert/command.ts'
import { completionCommand } from './completion/command.ts'
import { controllerCommand } from './controller/command.ts'
import { demoCommand } from './demo/command.ts'
import { doctorCommand } from './doctor/command.ts'
import { forgetCommand } from './forget/command.ts'
import { groupsCommand } from './groups/command.ts'
import { jobsCommand } from './jobs/command.ts'
import { leaderCommand } from './leader/command.ts'
import { membersCommand } from './members/command.ts'
import { migrateCommand } from './migrate/command.ts'
import { pageCommand } from './page/command.ts'
import { resignCommand } from './resign/command.ts'
import { restoreCommand } from './restore/command.ts'
import { rotateCommand } from './rotate/command.ts'
import { runCommand } from './run/command.ts'
import { serveCommand } from './serve/command.ts'
import { declare, declareFamily, type Declaration, type FamilyDeclaration } from './shared/arguments/declare.ts'
import { CommandError, exitCodes } from './shared/arguments/errors.ts'
import { withOtherCase } from './shared/arguments/suggestions.ts'
import { tell, writeError, writeOut } from './shared/output.ts'
import { sidecarCommand } from './sidecar/command.ts'
import { statusCommand } from './status/command.ts'
import { tokenCommands } from './token/command.ts'
import { versionOf } from './version.ts'
import { watchCommand } from './watch/command.ts'

/** The commands in the order of the help, by their heading in it. */
const commandGroups: Readonly<Record<string, readonly (Declaration | FamilyDeclaration | (() => Command))[]>> = {
  'Run:': [runCommand, campaignCommand, resignCommand, sidecarCommand, demoCommand],
  'See:': [
    leaderCommand,
    watchCommand,
    membersCommand,
    groupsCommand,
    jobsCommand,
    statusCommand,
    pageCommand,
    doctorCommand,
  ],
  'Operate:': [
    serveCommand,
    controllerCommand,
    backupCommand,
    restoreCommand,
    migrateCommand,
    rotateCommand,
    forgetCommand,
  ],
  'Set up:': [tokenCommands, certCommand, completionCommand],
}

/** Parses the command line and runs the command. */
export async function main(): Promise<void> {
  const program = new Command('tenure')
    .description('Leader election that stays right when machines stall, networks split and clocks lie.')
    .version(versionOf())
  for (const [heading, members] of Object.entries(commandGroups)) {
    // The heading of all commands that are added after it.
    program.commandsGroup(heading)
    for (const member of members) program.addCommand(commandOf(member))
  }
  // Without this call, commander lists its help command under a separate heading.
  program.helpCommand(true)
  for (const command of [program, ...program.commands.flatMap((each) => [each, ...each.commands])]) {
    command.exitOverride().configureOutput({
      writeOut,
      writeErr: writeError,
      outputError: (text, write) => {
        write(withOtherCase(text, command).replace(/^error: /, 'tenure: '))
      },
    })
  }
  try {
    await program.parseAsync()
  } catch (error) {
    process.exitCode = report(error)
  }
}

function commandOf(member: Declaration | FamilyDeclaration | (() => Command)): Command {
  if (typeof member === 'function') return member()
  return 'members' in member ? declareFamily(member) : declare(member)
}

function report(error: unknown): number {
  // Commander has already printed the message, or the requested help or version.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage
  if (!(error instanceof CommandError)) throw error
  tell(error.message)
  return error.exitCode
}
