import { test } from 'vitest'
import { runCloudFaults } from './run-cloud-faults.ts'
import { clouds } from '../servers/cloud-emulators.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

describeWithPrograms([programs.dynalite], 'a fleet on DynamoDB', () => {
  test(
    'a fleet has one leader at a time, whatever happens to the server, its data, and the network',
    { timeout: 180_000 },
    () => runCloudFaults(clouds['DynamoDB'], { keepsData: true }),
  )
})
