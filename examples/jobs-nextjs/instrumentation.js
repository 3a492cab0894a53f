// Next.js calls register() once in each server process. The jobs start there, and run in one process of all instances.
export async function register() {
  // Not in the edge runtime, and not while pages are being built.
  if (process.env.NEXT_RUNTIME !== 'nodejs' || process.env.NEXT_PHASE === 'phase-production-build') return
  const { createJobs } = await import('tenure/jobs')
  const { openStore } = await import('tenure/stores')
  const store = await openStore(process.env.TENURE_STORE ?? 'file:///var/lib/my-app/leases')
  const jobs = createJobs({ store, leaseDurationMs: 3_000 })
  jobs.every({ seconds: 1 }, { name: 'revalidate' }, async ({ scheduledAt }) => {
    console.log(`${process.pid}: revalidates for ${scheduledAt.toISOString()}`)
  })
  process.once('SIGTERM', () => void jobs.close())
}
