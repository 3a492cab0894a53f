import { test } from 'vitest'
import { runCloudFaults } from './run-cloud-faults.ts'
import { clouds } from '../servers/cloud-emulators.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

describeWithPrograms([programs.moto], 'a fleet on S3', () => {
  test('a fleet has one leader at a time, whatever happens to its data and the network', { timeout: 180_000 }, () =>
    runCloudFaults(clouds['S3'], { keepsData: false }),
  )
})
