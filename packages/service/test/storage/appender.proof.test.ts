import { test } from 'vitest'
import { appenderExplorations, expectAppenderCovered } from '../simulation/appender/explorations.ts'

const own = appenderExplorations.filter(({ by }) => by === 'npm run test:all')

test.each(own)('every order of appends is safe with $name', { timeout: 900_000 }, expectAppenderCovered)
