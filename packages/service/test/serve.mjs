// The service in a process of its own: serve.mjs DIRECTORY PORT. It prints its address once it answers.
// TENURE_SERVICE names another build of it.
/** @type {typeof import('@tenure/service')} */
const { startService } = await import(process.env['TENURE_SERVICE'] ?? '@tenure/service')

const [, , data = '', port = '0'] = process.argv
const service = await startService({ data, port: Number(port), policy: { minTtlMs: 50, maxTtlMs: 60_000 } })
console.log(service.url)
process.once('SIGTERM', () => {
  void service.close()
})
