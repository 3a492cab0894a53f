import { lead } from 'tenure'

// This import is what is measured. Using a name prevents it from being optimized away.
if (typeof lead !== 'function') throw new Error('The tenure package does not export lead().')
