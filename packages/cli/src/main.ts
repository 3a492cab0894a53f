import { Command } from 'commander'
import { serveCommand } from './commands/serve.ts'

await new Command('tenure')
  .description('Leader election that stays right when machines stall, networks split and clocks lie.')
  .addCommand(serveCommand())
  .parseAsync()
