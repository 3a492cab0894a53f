import { Command, CommanderError } from 'commander'
import { backupCommand } from './commands/backup.ts'
import { campaignCommand } from './commands/campaign.ts'
import { certCommand } from './commands/cert/command.ts'
import { completionCommand } from './commands/completion/command.ts'
import { controllerCommand } from './commands/controller/command.ts'
import { demoCommand } from './commands/demo/command.ts'
import { doctorCommand } from './commands/doctor/command.ts'
import { forgetCommand } from './commands/forget.ts'
import { handoverCommand } from './commands/handover/command.ts'
import { guardCommand } from './commands/guard/command.ts'
import { groupsCommand } from './commands/groups.ts'
import { jobsCommand } from './commands/jobs.ts'
import { leaderCommand } from './commands/leader.ts'
import { membersCommand } from './commands/members/command.ts'
import { migrateCommand } from './commands/migrate.ts'
import { pageCommand } from './commands/page/command.ts'
import { resignCommand } from './commands/resign.ts'
import { restoreCommand } from './commands/restore.ts'
import { rotateCommand } from './commands/rotate.ts'
import { runCommand } from './commands/run.ts'
import { serveCommand } from './commands/serve/command.ts'
import { declare, declareFamily, type Declaration, type FamilyDeclaration } from './shared/arguments/declare.ts'
import { CommandError, exitCodes } from './shared/arguments/errors.ts'
import { suggestOtherCase } from './shared/arguments/suggestions.ts'
import { tell, writeError, writeOut } from './shared/output.ts'
import { shardsCommand } from './commands/shards/command.ts'
import { sidecarCommand } from './commands/sidecar/command.ts'
import { statusCommand } from './commands/status.ts'
import { tokenCommands } from './commands/token.ts'
import { versionOf } from './shared/version.ts'
import { watchCommand } from './commands/watch/command.ts'

/** The commands in the order of the help, grouped by heading. */
const commandGroups: Readonly<Record<string, readonly (Declaration | FamilyDeclaration | (() => Command))[]>> = {
  'Run:': [runCommand, campaignCommand, resignCommand, handoverCommand, sidecarCommand, demoCommand],
  'See:': [
    leaderCommand,
    watchCommand,
    membersCommand,
    shardsCommand,
    groupsCommand,
    jobsCommand,
    statusCommand,
    pageCommand,
    doctorCommand,
  ],
  'Operate:': [
    serveCommand,
    controllerCommand,
    guardCommand,
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
    // The heading for all commands that are added after this call.
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
        write(suggestOtherCase(text, command).replace(/^error: /, 'tenure: '))
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
