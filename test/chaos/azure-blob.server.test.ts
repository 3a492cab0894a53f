import { test } from 'vitest'
import { runCloudFaults } from './run-cloud-faults.ts'
import { clouds } from '../servers/cloud-emulators.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

describeWithPrograms([programs.azurite], 'a fleet on Azure Blob Storage', () => {
  test('a fleet has one leader at a time, whatever happens to its data and the network', { timeout: 180_000 }, () =>
    runCloudFaults(clouds['Azure Blob Storage'], { keepsData: false }),
  )
})
