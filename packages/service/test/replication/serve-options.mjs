// A service in a separate process, with its options as JSON: serve-options.mjs OPTIONS. It sends its URL to its parent,
// reloads its files and stops when its parent asks, and ends with its parent. It logs to standard error.
import { createLogger, startService } from '@tenure/service'

/** @param {object} message */
const tell = (message) => void process.send?.(message)
/** @param {unknown} error */
const failure = (error) => ({ failed: error instanceof Error ? error.message : String(error) })

process.once('disconnect', () => process.exit())
try {
  const logger = createLogger({ level: 'info', json: true })
  const service = await startService({ logger, ...JSON.parse(process.argv[2] ?? '') })
  process.on('message', (asked) => {
    const done = asked === 'reload' ? service.reload() : service.close()
    done.then(
      () => tell({}),
      (error) => tell(failure(error)),
    )
  })
  tell({ url: service.url, clusterId: service.clusterId })
} catch (error) {
  tell(failure(error))
}
