// Runs the service in a separate process: serve.mjs PLACE PORT [ADVERTISE]. It prints its URL once it is ready. PLACE
// is a directory, or the URL of a server that replicas share. A replica logs to standard error. TENURE_SERVICE names
// another build of the service, MAX_TTL_MS sets a longest lease other than a minute, and METRICS_GROUP names a group
// that has its own metrics.
/** @type {typeof import('@tenure/service')} */
const { createLogger, startService } = await import(process.env['TENURE_SERVICE'] ?? '@tenure/service')

const [, , place = '', port = '0', advertise] = process.argv
const service = await startService({
  ...(advertise ? { store: place, advertise, logger: createLogger({ level: 'info', json: true }) } : { data: place }),
  port: Number(port),
  ...(process.env['METRICS_GROUP'] && { metricsGroups: [process.env['METRICS_GROUP']] }),
  policy: { minTtlMs: 50, maxTtlMs: Number(process.env['MAX_TTL_MS'] ?? 60_000) },
})
console.log(service.url)
process.once('SIGTERM', () => {
  void service.close()
})
