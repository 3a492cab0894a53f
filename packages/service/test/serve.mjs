// The service in a process of its own: serve.mjs PLACE PORT [ADVERTISE]. It prints its address once it answers.
// PLACE is a directory, or the URL of a server that replicas share: such a replica logs to standard error.
// TENURE_SERVICE names another build of it, MAX_TTL_MS a longest lease other than a minute, METRICS_GROUP a group that has
// metrics of its own.
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
