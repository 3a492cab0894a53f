import { Command } from 'commander'

/** `tenure serve`: the election service. */
export function serveCommand(): Command {
  return new Command('serve')
    .description('Run the election service.')
    .option('--listen <address>', 'where to listen', '127.0.0.1:7070')
    .option('--data <directory>', 'the data directory', './tenure-data')
    .action(async ({ listen, data }: { listen: string; data: string }) => {
      // Loaded only here: the rest of the command line starts without it.
      const { startService } = await import('@tenure/service')
      const [host, port] = listen.split(':')
      const service = await startService({ data, host, port: Number(port) })
      console.log(service.url)
      process.once('SIGTERM', () => void service.close())
    })
}
