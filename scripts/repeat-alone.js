/**
 * Whether a test failed because the machine was busy. A test of deadlines that fails beside others and passes alone is a
 * defect of the test, and the run says so, but it does not hide whether everything else passed. Nothing that checks
 * safety is repeated: two leaders once are two leaders.
 */

/** @typedef {import('./count-reporter.ts').FailedFile} FailedFile */
/** @typedef {import('./count-reporter.ts').RunOutcome} RunOutcome */

/** With more failures than this, the change is at fault and not the machine. */
const maxFiles = 6

/** Only tests with processes depend on how busy the machine is. */
const timedTiers = ['process', 'slow', 'server']

/** What these tests find may be rare. */
const safety = /chaos|faults|fleet|fuzz|histor|linear|simulat/

/**
 * Returns the files to run once more, each alone. Empty if any failure must stand.
 * @param {RunOutcome} outcome
 * @returns {readonly FailedFile[]}
 */
export function filesToRepeat({ failed, unhandledErrors }) {
  if (unhandledErrors > 0 || failed.length > maxFiles) return []
  const isRepeatable = failed.every(({ tier, path }) => timedTiers.includes(tier) && !safety.test(path))
  return isRepeatable ? failed : []
}

/**
 * Returns the last lines of the run, with the count of both attempts alone on the last one.
 * @param {RunOutcome} first
 * @param {readonly FailedFile[]} repeated
 * @param {readonly (RunOutcome | undefined)[]} alone the outcome of each repeated file, undefined if its run was cut off
 */
export function reportRepeated({ count }, repeated, alone) {
  let { passed, failed, skipped } = count
  const lines = ['', 'These failed beside other tests. A test that fails on a busy machine is a defect: mend it.']
  repeated.forEach((file, index) => {
    const outcome = alone[index]
    const isPassed = outcome !== undefined && outcome.count.failed === 0 && outcome.count.passed > 0
    for (const test of file.tests.length > 0 ? file.tests : ['(the file itself)'])
      lines.push(`  ${isPassed ? 'passed alone' : 'FAILED ALONE TOO'}: ${file.path} > ${test}`)
    if (!isPassed) return
    passed += outcome.count.passed - file.count.passed
    failed -= file.count.failed
    skipped += outcome.count.skipped - file.count.skipped
  })
  lines.push(formatCount({ passed, failed, skipped }))
  return { lines, isPassed: failed === 0 }
}

/**
 * The count of a run in the form that other programs read.
 * @param {import('./count-reporter.ts').Count} count
 */
export function formatCount({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
