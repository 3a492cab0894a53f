import { lead } from 'tenure'

// What is measured is the import; naming something keeps it from being needless.
if (typeof lead !== 'function') throw new Error('The package is not whole.')
