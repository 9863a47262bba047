"""Steps of the pipeline `members`: group records to states of members, to the intervals of members and owners, to churn."""
